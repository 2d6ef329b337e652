"""A registry is killed again and again while clients register: what was answered is there, and ids are unique."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx

from mainstem.client.log import Log
from mainstem.registry.registry import Registry
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.eventually import eventually

KILLS = 3


@contextlib.contextmanager
def registry_process(bootstrap: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A registry in a process of its own, and its address."""
    module = "mainstem.gateway.server.process"
    argv = [sys.executable, "-m", module, "--registry", "--bootstrap", bootstrap, "--http", "127.0.0.1:0"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate(timeout=30)


class Writer:
    """Registers schemas, each of which several subjects share, until it is stopped; remembers what was answered."""

    def __init__(self, number: int) -> None:
        self.answered: dict[tuple[str, int], int] = {}
        self.url = ""
        self._number = number
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        subject, nth = f"writer-{self._number}", 0
        with httpx.Client(timeout=10, trust_env=False) as client:
            while not self._stopping.is_set():
                schema = json.dumps({"type": "record", "name": "R", "doc": f"{nth}", "fields": []})
                try:
                    answer = client.post(f"{self.url}/subjects/{subject}/versions", json={"schema": schema})
                except (httpx.TransportError, httpx.UnsupportedProtocol):
                    self._stopping.wait(0.05)
                    continue
                assert answer.status_code == 200, answer.text
                self.answered[subject, nth] = answer.json()["id"]
                nth += 1


def test_what_was_answered_survives_sigkill_and_no_id_is_used_twice() -> None:
    rng = random.Random(3)
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        writers = [Writer(number) for number in range(3)]
        try:
            for _ in range(KILLS):
                with registry_process(broker.bootstrap) as (process, address):
                    before = _answers(writers)
                    for writer in writers:
                        writer.url = f"http://{address}"
                    wanted = before + rng.randint(3, 12)
                    eventually(lambda wanted=wanted: _answers(writers) >= wanted, "more answers")
                    process.send_signal(signal.SIGKILL)
        finally:
            for writer in writers:
                writer.stop()
        registry = Registry(log)
        ids: dict[int, int] = {}  # of a schema's number
        for writer in writers:
            for (subject, nth), schema_id in writer.answered.items():
                assert ids.setdefault(nth, schema_id) == schema_id
                (found,) = [each for each in registry.with_id(".", schema_id) if each.subject == subject]
                assert f'"doc":"{nth}"' in found.content.text
        assert len(set(ids.values())) == len(ids)
        for writer in range(3):
            versions = registry.versions(f"writer-{writer}")
            assert versions == list(range(1, len(versions) + 1))


def _answers(writers: list[Writer]) -> int:
    return sum(len(writer.answered) for writer in writers)
