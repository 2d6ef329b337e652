"""SIGKILL of the log under a producer's appends: each is in the stream once, and a follower got each once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from tests.broker.harness import LogProcess
from tests.gateway.durable.conftest import CONFIGS, TOPIC
from tests.gateway.served import served
from tests.support.eventually import eventually

_KILLS = 3
_BETWEEN = 40
_PATH = f"/streams/{TOPIC}/killed"
_TYPE = {"Content-Type": "application/json"}


class Producer:
    """Appends numbers, each with its sequence number, again and again until it is taken."""

    def __init__(self, client: httpx.Client, count: int) -> None:
        self.taken = 0
        self._client, self._count = client, count
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(120)

    def _run(self) -> None:
        while self.taken < self._count:
            by = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(self.taken)}
            answer = self._client.post(_PATH, content=json.dumps(self.taken), headers=_TYPE | by)
            assert answer.status_code in (200, 204, 503, 504), answer.text
            self.taken += answer.status_code < 300


@pytest.mark.slow
def test_each_append_is_there_once_after_kills_of_the_log(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as process, Log(process.bootstrap, timeout_s=10) as log:
        log.create_topic(TOPIC, partitions=1, configs=CONFIGS)
        with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as client:
            client.put(_PATH, headers=_TYPE)
            with Producer(client, _BETWEEN * (_KILLS + 1)) as producer:
                for kill in range(1, _KILLS + 1):
                    eventually(lambda most=kill * _BETWEEN: producer.taken >= most, "the log takes appends")
                    process.kill()
                    process.start()
            assert client.get(_PATH).json() == list(range(_BETWEEN * (_KILLS + 1)))
        with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as fresh:  # it has seen nothing of this
            found = fresh.get(_PATH)
            assert found.json() == list(range(_BETWEEN * (_KILLS + 1)))
            by = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "3"}
            assert fresh.post(_PATH, content="3", headers=_TYPE | by).status_code == 204  # a repeat
            assert fresh.head(_PATH).headers["stream-next-offset"] == found.headers["stream-next-offset"]
