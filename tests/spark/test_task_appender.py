"""What a writing task appends: where, once, and how far it got. On a real log, without Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from mainstem.client.log import Log
from mainstem.client.wire.connection.connection import BrokerConnection
from mainstem.errors import ConfigError, LogUnavailableError, RecordTooLargeError, UnknownTopicError
from mainstem.record.partitioner import partition_for
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.sink import task_appender as module
from mainstem.spark.sink.task_appender import Rows, appending
from mainstem.testing.embedded import EmbeddedBroker

KEYS = [f"key-{number}".encode() for number in range(200)]


@pytest.fixture
def write(mainstem_broker: EmbeddedBroker) -> Iterator[WriteOptions]:
    yield WriteOptions(LogOptions(mainstem_broker.bootstrap), None, None, None, "none", None)
    module._IDLE.renew()


def test_keys_go_where_kafkas_clients_send_them(write: WriteOptions, mainstem_log: Log) -> None:
    mainstem_log.create_topic("keyed", partitions=4)
    with appending(write) as out:
        out.append("keyed", Rows(pa.array([b"v"] * 200), pa.array(KEYS)))
    read = {record.key: record.partition for record in mainstem_log.read("keyed")}
    assert read == {key: partition_for(key, 4) for key in KEYS}


def test_the_position_is_just_after_what_was_written(write: WriteOptions, mainstem_log: Log) -> None:
    mainstem_log.create_topic("positions", partitions=4)
    with appending(write) as out:
        out.append("positions", Rows(pa.array([b"v"] * 200), pa.array(KEYS)))
        assert out.position == mainstem_log.end("positions")


def test_tasks_of_one_process_share_a_producer(write: WriteOptions, mainstem_log: Log, mainstem_topic: str) -> None:
    for _ in range(2):
        with appending(write) as out:
            out.append(mainstem_topic, Rows(pa.array([b"v"] * 3)))
    assert len(list(mainstem_log.read(mainstem_topic))) == 6
    assert len(module._IDLE.value) == 1


def test_after_an_error_a_task_starts_with_a_new_producer(
    write: WriteOptions, mainstem_log: Log, mainstem_topic: str
) -> None:
    with pytest.raises(UnknownTopicError, match="no topic nowhere"), appending(write) as out:
        out.append("nowhere", Rows(pa.array([b"v"])))
    assert module._IDLE.value == {}


def test_a_row_may_name_its_partition(write: WriteOptions, mainstem_log: Log) -> None:
    mainstem_log.create_topic("named", partitions=4)
    with appending(write) as out:
        out.append("named", Rows(pa.array([b"a", b"b"]), partitions=pa.array([3, 2], pa.int32())))
    assert {record.value: record.partition for record in mainstem_log.read("named")} == {b"a": 3, b"b": 2}


def test_a_partition_that_does_not_exist_is_refused(write: WriteOptions, mainstem_topic: str) -> None:
    with pytest.raises(UnknownTopicError, match="has no partition 7; it has 1"), appending(write) as out:
        out.append(mainstem_topic, Rows(pa.array([b"a"]), partitions=pa.array([7], pa.int32())))


def test_an_unknown_codec_is_refused(mainstem_broker: EmbeddedBroker) -> None:
    options = WriteOptions(LogOptions(mainstem_broker.bootstrap), None, None, None, "rar", None)
    with pytest.raises(ConfigError, match="use one of none, gzip"), appending(options):
        pass


def test_many_batches_are_in_flight_at_once_and_in_order(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    options = WriteOptions(LogOptions(mainstem_broker.bootstrap), None, None, None, "lz4", 10_000)
    values = [f"{number:0>500}".encode() for number in range(5000)]
    with appending(options) as out:
        for start in range(0, 5000, 1000):
            out.append(mainstem_topic, Rows(pa.array(values[start : start + 1000])))
        out.finish()
        assert out.position == mainstem_log.end(mainstem_topic)
    assert [record.value for record in mainstem_log.read(mainstem_topic)] == values


def test_answers_that_get_lost_lose_and_double_nothing(
    write: WriteOptions, mainstem_log: Log, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive, calls, appender = BrokerConnection.receive, itertools.count(), threading.get_ident()

    def lossy(self: BrokerConnection, *args: Any) -> Any:
        # Other threads have connections of their own, whose answers do not get lost.
        if threading.get_ident() == appender and next(calls) % 7 == 3:
            self.close()
            raise LogUnavailableError("lost")
        return receive(self, *args)

    values = [f"{number:0>900}".encode() for number in range(3000)]
    with appending(replace(write, batch_bytes_max=20_000)) as out:
        monkeypatch.setattr(BrokerConnection, "receive", lossy)
        out.append(mainstem_topic, Rows(pa.array(values)))
        out.finish()
        monkeypatch.undo()
    assert next(calls) > 7
    assert [record.value for record in mainstem_log.read(mainstem_topic)] == values


def test_a_batch_that_the_topic_does_not_take_is_one_clear_error(write: WriteOptions, mainstem_log: Log) -> None:
    mainstem_log.create_topic("small-records", configs={"max.message.bytes": "1000"})
    with pytest.raises(RecordTooLargeError, match=r"small-records/0 takes .* max\.message\.bytes") as raised:
        with appending(write) as out:
            out.append("small-records", Rows(pa.array([b"v" * 2000])))
    assert "\n" not in str(raised.value)


def test_large_columns_are_encoded_in_parts(write: WriteOptions) -> None:
    rows = Rows(pa.array([b"v" * 1_000_000] * 40), pa.array([b"k"] * 40))
    parts = list(module._slices(rows))
    assert max(part.values.nbytes for part in parts) <= 8 * 1024 * 1024
    assert sum(len(part.values) for part in parts) == 40
