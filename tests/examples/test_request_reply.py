"""The example of request and reply: asked, answered, and answered after the gateway was restarted."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError

import pytest

from examples import request_reply as example
from mainstem.client.http.worker import Worker
from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker


@contextmanager
def gateway(bootstrap: str) -> Iterator[str]:
    """A gateway process; its address. Killed at the end, without a word of goodbye."""
    argv = [sys.executable, "-m", "mainstem.gateway.server.process", "--bootstrap", bootstrap, "--http", "127.0.0.1:0"]
    process = subprocess.Popen([*argv, "--stop-with-parent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield "http://" + process.stdout.readline().strip().removeprefix("ready: http ")
    finally:
        process.kill()
        process.communicate(timeout=60)


@contextmanager
def worker(log: Log) -> Iterator[None]:
    with Worker(log, example.TOPIC, example.quote) as working:
        thread = threading.Thread(target=working.run)
        thread.start()
        try:
            yield
        finally:
            working.stop()
            thread.join(60)


def test_a_request_outlives_the_gateway_that_took_it() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic(example.TOPIC)
        with gateway(broker.bootstrap) as url:
            asked = example.ask(url, "LGA", "BOS", later=True)
        assert asked["status"] == "pending"
        with gateway(broker.bootstrap) as url, worker(log):
            assert example.look(url, asked["id"])["reply"]["value"] == {"miles": 184, "price": 60.24}
            assert example.ask(url, "EWR", "SFO")["reply"]["value"] == {"miles": 2565, "price": 322.15}
            with pytest.raises(HTTPError) as failed:
                example.ask(url, "EWR", "XYZ")
    assert (failed.value.code, b"nobody flies" in failed.value.read()) == (502, True)
