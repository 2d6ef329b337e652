"""Times in topics that are written in transactions: markers have the broker's clock, records their writers'."""

from __future__ import annotations

import datetime
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.read_options import ReadOptions
from tests.cli.commands import Commands
from tests.gateway.served import served
from tests.support.removed_records import delete_records
from tests.views.hosting import REQUESTS, Setting

DAY_4 = datetime.datetime(2013, 1, 3, 12, tzinfo=datetime.UTC)
NOON = "2013-01-03T12:00:00Z"


def day(number: int) -> int:
    return int(datetime.datetime(2013, 1, number, tzinfo=datetime.UTC).timestamp() * 1000)


def write(log: Log, topic: str, numbers: range = range(1, 5)) -> None:
    """A committed transaction of one record for each day: records at 0, 2, 4, 6 and markers behind each."""
    for number in numbers:
        with log.transaction() as transaction:
            value = {"origin": "A", "dest": f"B{number}", "miles": number}
            transaction.append(topic, value, key=f"{number}", timestamp_ms=day(number))


def test_a_read_ends_and_begins_at_records_and_not_at_markers(mainstem_log: Log, mainstem_topic: str) -> None:
    write(mainstem_log, mainstem_topic)
    assert [record.offset for record in mainstem_log.read(mainstem_topic, end=DAY_4)] == [0, 2, 4]
    assert [record.offset for record in mainstem_log.read(mainstem_topic, start=DAY_4)] == [6]
    assert mainstem_log.positions_at(mainstem_topic, DAY_4) == Position.of(mainstem_topic, 0, 6)
    with mainstem_log.follow(mainstem_topic, start=DAY_4) as follower:
        assert next(follower).offset == 6
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    assert [record.offset for record in mainstem_log.read(mainstem_topic, end=now)] == [0, 2, 4, 6]
    assert list(mainstem_log.read(mainstem_topic, start=now)) == []


def test_the_first_record_that_is_late_enough_counts_whatever_comes_behind_it(
    mainstem_log: Log, mainstem_topic: str
) -> None:
    for numbers in (range(1, 3), range(4, 5), range(3, 4), range(4, 5)):
        write(mainstem_log, mainstem_topic, numbers)
    assert [record.offset for record in mainstem_log.read(mainstem_topic, end=DAY_4)] == [0, 2]


def test_aborted_records_are_none(mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str) -> None:
    write(mainstem_log, mainstem_topic, range(1, 3))
    producer = Producer({"bootstrap.servers": mainstem_broker.bootstrap, "transactional.id": mainstem_topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(mainstem_topic, "aborted", partition=0, timestamp=day(4))
    producer.flush()
    producer.abort_transaction()
    write(mainstem_log, mainstem_topic, range(3, 5))
    assert [record.offset for record in mainstem_log.read(mainstem_topic, end=DAY_4)] == [0, 2, 6]


def test_an_open_transaction_holds_nobody_up(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    write(mainstem_log, mainstem_topic, range(1, 3))
    producer = Producer({"bootstrap.servers": mainstem_broker.bootstrap, "transactional.id": mainstem_topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(mainstem_topic, "open", partition=0, timestamp=day(4))
    producer.flush()
    assert [record.offset for record in mainstem_log.read(mainstem_topic, end=DAY_4)] == [0, 2]
    assert mainstem_log.positions_at(mainstem_topic, DAY_4) == Position.of(mainstem_topic, 0, 4)
    producer.abort_transaction()


def test_many_old_records_behind_a_marker_are_searched_through(mainstem_log: Log, mainstem_topic: str) -> None:
    write(mainstem_log, mainstem_topic, range(1, 2))
    old = [NewRecord(b"x" * 1000, timestamp_ms=day(2)) for _ in range(2_000)]
    mainstem_log.append_many(mainstem_topic, old)
    write(mainstem_log, mainstem_topic, range(4, 5))
    assert mainstem_log.positions_at(mainstem_topic, DAY_4) == Position.of(mainstem_topic, 0, 2_002)


def test_the_command_and_http_read_up_to_a_time(
    mainstem_broker: EmbeddedBroker,
    mainstem_log: Log,
    mainstem_topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(mainstem_log, mainstem_topic)
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", mainstem_broker.bootstrap)
    assert len(Commands(capsys).run("read", mainstem_topic, "--to", NOON).out.splitlines()) == 3
    with served(create_app(mainstem_log, ForwardingBackend([]), GatewayLimits())) as api:
        assert offsets(api, mainstem_topic, to=NOON) == [0, 2, 4]
        assert offsets(api, mainstem_topic, **{"from": NOON}) == [6]


def offsets(api: httpx.Client, topic: str, **query: str) -> list[int]:
    return [record["offset"] for record in api.get(f"/topics/{topic}/records", params=query).json()["records"]]


def test_views_answer_as_of_a_time(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("kv", "sql"))
    with setting.host() as host:
        write(mainstem_log, setting.topic)
        end = mainstem_log.end(setting.topic)
        for view in ("kv", "sql"):
            host.query(view, REQUESTS[view], ReadOptions(at_least=end))
            answer = host.query(view, REQUESTS[view], ReadOptions(as_of=int(DAY_4.timestamp() * 1000)))
            assert sorted(row["_key"] for row in answer.rows) == ["1", "2", "3"]


def test_a_removed_past_is_refused_also_where_a_marker_is_all_that_is_left_of_it(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, tmp_path: Path
) -> None:
    from mainstem.errors import HistoryRemovedError

    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        write(mainstem_log, setting.topic)
        host.query("kv", REQUESTS["kv"], ReadOptions(at_least=mainstem_log.end(setting.topic)))
        delete_records(mainstem_broker.bootstrap, setting.topic, 0, 5)
        with pytest.raises(HistoryRemovedError, match="before offset 6"):
            host.query("kv", REQUESTS["kv"], ReadOptions(as_of=int(DAY_4.timestamp() * 1000)))
