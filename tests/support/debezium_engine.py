"""Debezium's embedded engine over a PostgreSQL database, as a process; its jars come through Maven, once."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.apache_kafka import fetch_jars
from tests.support.foreign_programs import compiled_argv

_HOME = Path(__file__).with_name("debezium")
ENGINE_PROGRAM = _HOME / "Changes.java"
_VERSION = "3.3.1"
_STOP_S = 60


class Change(NamedTuple):
    """A record that Debezium would write: topic, key and value, None for a tombstone."""

    topic: str
    key: dict[str, Any]
    value: dict[str, Any] | None


def debezium_jars() -> Path:
    """The directory of Debezium's jars. Raises KafkaUnavailableError when they cannot be fetched."""
    return fetch_jars(_HOME / "pom.xml", f"debezium-{_VERSION}")


def engine_properties(dsn: dict[str, str], name: str, tables: list[str]) -> dict[str, str]:
    """Properties of an engine over ``tables`` of a database. Values are as close to JSON's own as Debezium writes them.

    ``dsn``: host, port, user, password and dbname.
    """
    return {
        "name": name,
        "topic.prefix": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": dsn["host"],
        "database.port": dsn["port"],
        "database.user": dsn["user"],
        "database.password": dsn["password"],
        "database.dbname": dsn["dbname"],
        "plugin.name": "pgoutput",
        "slot.name": f"{name}_debezium",
        "publication.name": f"{name}_debezium",
        "publication.autocreate.mode": "filtered",
        "table.include.list": ",".join(tables),
        "skipped.operations": "none",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "interval.handling.mode": "string",
        "binary.handling.mode": "base64",
        "include.unknown.datatypes": "true",
    }


def write_properties(properties: dict[str, str], path: Path) -> None:
    """Write a file of Java's properties."""
    path.write_text("\n".join(f"{key}={value}" for key, value in properties.items()))


class DebeziumEngine:
    """Captures ``tables`` of a database; ``next`` gives its changes in order. A context manager."""

    def __init__(self, dsn: dict[str, str], name: str, tables: list[str], directory: Path) -> None:
        """``dsn``: host, port, user, password and dbname."""
        properties = engine_properties(dsn, name, tables)
        self._properties = directory / f"{name}.properties"
        write_properties(properties, self._properties)
        self._changes: queue.Queue[Change | None] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> DebeziumEngine:
        argv = compiled_argv(ENGINE_PROGRAM, debezium_jars())
        self._process = subprocess.Popen(
            [*argv, str(self._properties)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)

    def next(self, timeout_s: float) -> Change:
        """The next change. Raises AssertionError when none comes, or the engine has ended."""
        try:
            change = self._changes.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"Debezium has sent nothing for {timeout_s:g} s") from None
        assert change is not None, "Debezium has ended"
        return change

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            topic, key, value = line.rstrip("\n").split("\t")
            self._changes.put(Change(topic, json.loads(key), json.loads(value) if value != "null" else None))
        self._changes.put(None)
