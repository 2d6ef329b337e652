"""Debezium's JDBC sink in Kafka Connect, as a peer of sinks: one standalone worker, and connectors in it one by one.

The jars come through Maven (``benchmarks/jdbc/pom.xml``), once. The worker has the heap of its own start script. The
values are JSON without a schema, as Mainstem reads them: Connect's converter gets the schema from its settings.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import fetch_jars
from tests.support.ports import free_port

NAME = "Debezium JDBC"
_VERSION = "3.3.1"
_POM = Path(__file__).with_name("jdbc") / "pom.xml"
_JVM = ["-Xms256M", "-Xmx2G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
_START_S = 120.0
_GIVE_UP_S = 300.0
_POLL_S = 0.01


def jdbc_jars() -> Path:
    """The directory of the connector's jars. Raises KafkaUnavailableError when they cannot be fetched."""
    return fetch_jars(_POM, f"jdbc-sink-{_VERSION}")


class JdbcSink:
    """A Kafka Connect worker over a log; a context manager."""

    def __init__(self, directory: Path, bootstrap: str, fields: list[dict[str, Any]]) -> None:
        """``fields``: the columns of a value, as Connect's JSON schema has them."""
        directory.mkdir()
        self._output = directory / "connect.log"
        self._properties = directory / "worker.properties"
        self._url = f"http://127.0.0.1:{free_port()}"
        schema = {"type": "struct", "optional": True, "name": "row", "fields": fields}
        settings = {
            "bootstrap.servers": bootstrap,
            "listeners": self._url,
            "offset.storage.file.filename": directory / "offsets",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "true",
            "value.converter.schema.content": json.dumps(schema),
            "connector.client.config.override.policy": "All",
            "plugin.discovery": "hybrid_warn",
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> JdbcSink:
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        argv = ["java", *_JVM, "-cp", f"{jdbc_jars()}/*", main, str(self._properties)]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._until(lambda: self._ask("GET", "/") is not None, _START_S)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)

    @property
    def pid(self) -> int:
        """The worker's process."""
        assert self._process is not None, "it runs"
        return self._process.pid

    @contextmanager
    def running(self, name: str, settings: Mapping[str, str]) -> Iterator[Callable[[Callable[[], bool]], float]]:
        """A connector, removed at the end. The value waits for a condition; the time at which it held."""
        connector = {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "insert.mode": "upsert",
            "delete.enabled": "false",
            "schema.evolution": "none",
            "primary.key.mode": "record_value",
            "consumer.override.auto.offset.reset": "earliest",
            **settings,
        }

        def wait(condition: Callable[[], bool]) -> float:
            self._until(lambda: condition() or self._refuse_failure(name), _GIVE_UP_S)
            return time.perf_counter()

        self._ask("POST", "/connectors", {"name": name, "config": connector})
        try:
            yield wait
        finally:
            self._ask("DELETE", f"/connectors/{name}")

    def _refuse_failure(self, name: str) -> bool:
        status = self._ask("GET", f"/connectors/{name}/status") or {}
        traces = [task["trace"] for task in status.get("tasks", ()) if "trace" in task]
        if traces:
            raise RuntimeError(f"the connector failed:\n{traces[0][:4000]}")
        return False

    def _until(self, condition: Callable[[], bool], within_s: float) -> None:
        assert self._process is not None
        deadline_s = time.perf_counter() + within_s
        while not condition():
            if self._process.poll() is not None or time.perf_counter() > deadline_s:
                raise RuntimeError(f"Kafka Connect did not get there: {self._output.read_text()[-4000:]}")
            time.sleep(_POLL_S)  # nothing announces what a foreign process has done: poll for it

    def _ask(self, method: str, path: str, document: Any = None) -> Any:
        """An answer of the worker's REST API; None where it does not answer yet, or has nothing there yet."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self._url + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None
        except (urllib.error.URLError, ConnectionError):
            pass
        return None
