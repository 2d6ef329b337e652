"""Views of a topic whose schema another program registers after the view was opened, and before the first record."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.schema.infer import schema_of
from mainstem.schema.types import Encoding
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery, SqlQuery
from tests.views.hosting import DDL, KINDS, REQUESTS

FLIGHT = {"origin": "A", "dest": "B", "miles": 100}
COLUMNS = SqlQuery('SELECT miles FROM "sql"')


class Late:
    """An App with views of a topic that is there, without a schema and without a record."""

    def __init__(self, log: Log, directory: Path) -> None:
        self.log = log
        self.directory = directory
        self.app = App(f"app-{uuid.uuid4().hex[:8]}")
        self.topic = f"flights-{uuid.uuid4().hex[:8]}"
        self.app.topic(self.topic)
        for name in ("sql", "kv", "lake", "metrics"):
            self.app.view(name, self.topic, KINDS[name])
        deploy(self.app, log)

    def host(self) -> ViewHost:
        return ViewHost(tuple(self.app.views.values()), self.log.bootstrap, self.directory)

    def register(self, encoding: Encoding | None = None) -> None:
        """What another program does before it writes its first record."""
        register_topic(self.log, self.topic, schema_of(DDL), encoding=encoding)

    def wait_until_live(self, host: ViewHost) -> None:
        for name in self.app.views:
            host.wait(name, lambda status: status.state == "live", 60)


@pytest.fixture
def late(mainstem_log: Log, tmp_path: Path) -> Late:
    return Late(mainstem_log, tmp_path)


def test_a_sql_view_gets_the_columns_that_come_just_before_the_first_record(late: Late) -> None:
    with late.host() as host:
        late.wait_until_live(host)
        late.register()
        end = late.log.append(late.topic, FLIGHT, key="1")
        assert host.query("sql", COLUMNS, ReadOptions(at_least=end)).rows == [{"miles": 100}]
        assert host.verify("sql").equal
    with late.host() as host:
        assert host.query("sql", COLUMNS, ReadOptions(at_least=end)).rows == [{"miles": 100}]


def test_encoded_values_are_read_by_the_schema_that_comes_just_before_the_first_record(late: Late) -> None:
    with late.host() as host:
        late.wait_until_live(host)
        late.register("avro")
        end = late.log.append(late.topic, Codec(late.log).encode(late.topic, FLIGHT), key="1")
        for name in late.app.views:
            assert host.query(name, REQUESTS[name], ReadOptions(at_least=end)).rows
            assert host.status(name)[0].dead_letters == 0
        assert host.query("kv", GetQuery("1")).rows == [{"_key": "1", **FLIGHT}]


def test_a_schema_that_comes_while_the_host_is_stopped_counts_too(late: Late) -> None:
    with late.host() as host:
        late.wait_until_live(host)
        assert host.query("sql", SqlQuery('SELECT * FROM "sql"')).rows == []
    late.register()
    with late.host() as host:
        late.wait_until_live(host)
        assert host.query("sql", COLUMNS).rows == []
        end = late.log.append(late.topic, FLIGHT, key="1")
        assert host.query("sql", COLUMNS, ReadOptions(at_least=end)).rows == [{"miles": 100}]
    assert len(list((late.directory / "sql").glob("v[0-9]*"))) == 1


def test_a_view_that_was_rebuilt_before_the_first_record_gets_the_schema(late: Late) -> None:
    with late.host() as host:
        late.wait_until_live(host)
        host.rebuild("sql")
        late.register()
        end = late.log.append(late.topic, FLIGHT, key="1")
        assert host.query("sql", COLUMNS, ReadOptions(at_least=end)).rows == [{"miles": 100}]


def test_a_topic_that_never_gets_a_schema_is_read_as_json_and_its_view_is_opened_once(late: Late) -> None:
    with late.host() as host:
        late.wait_until_live(host)
        opened = host._views["sql"]._runner.version
        end = late.log.append(late.topic, FLIGHT, key="1")
        query = SqlQuery("SELECT value->>'miles' AS miles FROM \"sql\"")
        assert host.query("sql", query, ReadOptions(at_least=end)).rows == [{"miles": "100"}]
        assert host._views["sql"]._runner.version is opened


def test_a_schema_that_comes_after_the_first_record_stops_the_view_until_it_is_rebuilt(late: Late) -> None:
    with late.host() as host:
        end = late.log.append(late.topic, FLIGHT, key="1")
        host.query("sql", SqlQuery('SELECT value FROM "sql"'), ReadOptions(at_least=end))
    late.register()
    with late.host() as host:
        assert "rebuild" in host.wait("sql", lambda status: status.state == "stopped").detail
        host.rebuild("sql")
        assert host.query("sql", COLUMNS).rows == [{"miles": 100}]


@pytest.mark.parametrize("has_schema", [True, False])
def test_a_sink_makes_its_table_when_the_schema_or_the_first_record_is_there(late: Late, has_schema: bool) -> None:
    path = late.directory / "sink.db"
    late.app.sink(late.topic, ms.SQLite(path, table="flights"))
    with late.host() as host:
        status = host.wait("flights", lambda status: status.state == "waiting", 60)
        assert status.detail == f"for the schema of topic {late.topic}, or its first record"
        if has_schema:
            late.register()
        end = late.log.append(late.topic, FLIGHT, key="1")
        host.wait("flights", lambda status: status.position.covers(end), 60)
    with closing(sqlite3.connect(path)) as database:
        made = [column[1] for column in database.execute("PRAGMA table_info(flights)")]
        assert made == ["_key", *(("origin", "dest", "miles") if has_schema else ("value",))]
        assert database.execute("SELECT count(*) FROM flights").fetchall() == [(1,)]


def test_a_sink_whose_topic_was_deleted_is_stopped_as_any_view(late: Late) -> None:
    late.app.sink(late.topic, ms.SQLite(late.directory / "sink.db", table="flights"))
    end = late.log.append(late.topic, FLIGHT, key="1")
    with late.host() as host:
        host.wait("flights", lambda status: status.position.covers(end), 60)
    late.log.delete_topic(late.topic)
    with late.host() as host:
        assert "was deleted" in host.wait("flights", lambda status: status.state == "stopped", 60).detail
