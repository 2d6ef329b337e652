"""A stream's planning, asked as Spark asks it, without a JVM: on Mainstem and on Apache Kafka."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.types import StructType

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import ConfigError, MainstemError, OffsetOutOfRangeError, UnknownTopicError
from mainstem.model import Position
from mainstem.pipelines.losses import recorded_losses
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.features import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning import subscription
from mainstem.spark.planning.batch_reader import LogReader
from mainstem.spark.planning.stream_reader import LogStreamReader
from mainstem.spark.tasks.task_reads import read_partition
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually
from tests.support.removed_records import delete_records


class Stream:
    """A query as far as the source is concerned: its checkpoint is what ``start`` holds."""

    def __init__(self, broker: EmbeddedBroker, **options: str) -> None:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "startingOffsets": "earliest", **options}
        if not {"kafka_group_id", "groupIdPrefix"} & options.keys():
            given["commitOffsets"] = "false"  # a thread that goes on by itself is started where it is looked at alone
        self.options = {name.replace("_", "."): value for name, value in given.items() if value}
        self.start: dict[str, Any] | None = None
        self.restart()

    def restart(self) -> None:
        """The process that plans is another one; the checkpoint stays."""
        self.parsed = ReadOptions.parse(self.options)
        self.reader = LogStreamReader(self.parsed, StructType())

    def available_now(self) -> Stream:
        self.reader.prepareForTriggerAvailableNow()
        return self

    def next(self) -> list[str]:
        """Plan a micro-batch as Spark would; the ranges that it reads."""
        if self.start is None:
            self.start = self.reader.initialOffset()
        limit = self.reader.getDefaultReadLimit()
        before, self.start = self.start, json.loads(json.dumps(self.reader.latestOffset(self.start, limit)))
        return [] if self.start == before else self.ranges(before, self.start)

    def ranges(self, before: dict[str, Any], end: dict[str, Any]) -> list[str]:
        parts = [part for task in self.reader.partitions(before, end) for part in task.ranges]  # type: ignore[attr-defined]
        return sorted(f"{part.topic_partition}:{part.start}-{part.end}" for part in parts)

    @property
    def position(self) -> Position:
        return StreamOffsets.from_json(self.start or {}).position


@pytest.fixture(scope="module", params=["mainstem", pytest.param("kafka", marks=pytest.mark.maven)])
def mainstem_broker(
    request: pytest.FixtureRequest, mainstem_broker: EmbeddedBroker
) -> Iterator[EmbeddedBroker | ApacheKafka]:
    """The log that the tests here are run on, one after the other."""
    if request.param == "mainstem":
        yield mainstem_broker
        return
    kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
    yield kafka


@pytest.fixture(autouse=True)
def no_stale_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "METADATA_AGE_S_MAX", 0.0)


@pytest.fixture
def topic(mainstem_log: Log, mainstem_topic: str) -> str:
    """A topic of two partitions."""
    name = f"{mainstem_topic}-2"
    mainstem_log.create_topic(name, partitions=2)
    return name


def fill(log: Log, topic: str, count: int, *, size: int = 1) -> None:
    """So many records in each of two partitions."""
    log.append_many(topic, [NewRecord(b"v" * size, partition=n % 2) for n in range(2 * count)])


def test_a_stream_reads_on_where_it_was(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    stream = Stream(mainstem_broker, subscribe=topic)
    fill(mainstem_log, topic, 3)
    assert stream.next() == [f"{topic}/0:0-3", f"{topic}/1:0-3"]
    assert stream.next() == []
    mainstem_log.append(topic, b"v", partition=1)
    stream.restart()
    assert stream.next() == [f"{topic}/1:3-4"]


def test_a_first_micro_batch_that_is_run_again_reads_the_same(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    stream = Stream(mainstem_broker, subscribe=topic, startingOffsets="")
    fill(mainstem_log, topic, 3)
    initial = stream.reader.initialOffset()
    fill(mainstem_log, topic, 2)
    end = stream.reader.latestOffset(initial, ReadAllAvailable())
    first = stream.ranges(initial, end)
    stream.restart()
    assert first == stream.ranges(stream.reader.initialOffset(), end) == [f"{topic}/0:3-5", f"{topic}/1:3-5"]


def test_a_look_for_news_is_one_request(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "METADATA_AGE_S_MAX", 600.0)
    stream = Stream(mainstem_broker, subscribe=topic, commitOffsets="false")
    fill(mainstem_log, topic, 3)
    stream.next()
    asked: list[str] = []
    for name in ("metadata", "list_offsets", "fetch"):
        monkeypatch.setattr(WireClient, name, _counting(getattr(WireClient, name), name, asked))
    fill(mainstem_log, topic, 3)
    assert stream.next() == [f"{topic}/0:3-6", f"{topic}/1:3-6"]
    stream.reader.reportLatestOffset()
    assert stream.next() == []
    assert asked == ["fetch", "fetch"]


def _counting(function: Any, name: str, asked: list[str]) -> Any:
    """``function``, whose calls by this thread are written down: others may follow other topics meanwhile."""
    asker = threading.get_ident()

    def counted(*arguments: Any, **named: Any) -> Any:
        if threading.get_ident() == asker:
            asked.append(name)
        return function(*arguments, **named)

    return counted


def test_limits_are_told_to_spark(mainstem_broker: EmbeddedBroker, topic: str) -> None:
    def limit(**options: str) -> Any:
        return Stream(mainstem_broker, subscribe=topic, **options).reader.getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2") == ReadMaxRows(5)
    assert limit(maxBytesPerTrigger="5") == ReadMaxBytes(5)
    assert limit(minOffsetsPerTrigger="5") == ReadMinRows(5)


def test_a_limit_in_records_is_kept(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    fill(mainstem_log, topic, 5)
    stream = Stream(mainstem_broker, subscribe=topic, maxOffsetsPerTrigger="4")
    assert [len(stream.next()) for _ in range(4)] == [2, 2, 2, 0]
    assert stream.position == mainstem_log.end(topic)


def test_a_limit_in_bytes_is_kept_about(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    fill(mainstem_log, topic, 100, size=1000)
    stream = Stream(mainstem_broker, subscribe=topic, maxBytesPerTrigger="50000")
    stream.next()
    read = sum(stream.position.values())
    assert 40 <= read <= 52


def test_a_trigger_that_takes_all_knows_no_limit(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    fill(mainstem_log, topic, 5)
    stream = Stream(mainstem_broker, subscribe=topic, maxOffsetsPerTrigger="4")
    end = stream.reader.latestOffset(stream.reader.initialOffset(), ReadAllAvailable())
    assert StreamOffsets.from_json(end).position == mainstem_log.end(topic)


def test_a_micro_batch_waits_for_enough(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    stream = Stream(mainstem_broker, subscribe=topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    fill(mainstem_log, topic, 1)
    assert len(stream.next()) == 2  # the first of a run waits for nothing
    fill(mainstem_log, topic, 2)
    assert stream.next() == []
    fill(mainstem_log, topic, 1)
    assert stream.next() == [f"{topic}/0:1-4", f"{topic}/1:1-4"]


def test_a_micro_batch_waits_no_longer_than_asked_for(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    stream = Stream(mainstem_broker, subscribe=topic, minOffsetsPerTrigger="500", maxTriggerDelay="0ms")
    fill(mainstem_log, topic, 1)
    assert len(stream.next()) == 2
    fill(mainstem_log, topic, 1)
    assert len(stream.next()) == 2


def test_available_now_ends_where_it_was_then(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    fill(mainstem_log, topic, 3)
    stream = Stream(
        mainstem_broker, subscribe=topic, maxOffsetsPerTrigger="4", minOffsetsPerTrigger="4"
    ).available_now()
    assert stream.next() == [f"{topic}/0:0-2", f"{topic}/1:0-2"]
    fill(mainstem_log, topic, 3)
    assert stream.next() == [f"{topic}/0:2-3", f"{topic}/1:2-3"]
    assert stream.next() == []


def test_topics_that_appear_are_read_from_their_start_but_not_by_available_now(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    mainstem_log.append(mainstem_topic, b"v")
    stream = Stream(mainstem_broker, subscribe="", subscribePattern=f"{mainstem_topic}.*").available_now()
    assert len(stream.next()) == 1
    late = f"{mainstem_topic}-late"
    mainstem_log.create_topic(late)
    mainstem_log.append_many(late, [NewRecord(b"v") for _ in range(4)])
    delete_records(mainstem_broker.bootstrap, late, 0, 3)
    assert stream.next() == []
    stream.restart()
    assert stream.next() == [f"{late}/0:3-4"]
    assert stream.next() == []


def test_a_pattern_may_match_nothing_yet(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    stream = Stream(mainstem_broker, subscribe="", subscribePattern=f"{mainstem_topic}-later")
    assert stream.next() == []
    mainstem_log.create_topic(f"{mainstem_topic}-later")
    mainstem_log.append(f"{mainstem_topic}-later", b"v")
    assert stream.next() == [f"{mainstem_topic}-later/0:0-1"]


def test_a_partition_that_is_new_is_read_from_its_start(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    mainstem_log.append(mainstem_topic, b"v")
    stream = Stream(mainstem_broker, subscribe=mainstem_topic)
    assert stream.next() == [f"{mainstem_topic}/0:0-1"]
    admin = AdminClient({"bootstrap.servers": mainstem_broker.bootstrap})
    admin.create_partitions([NewPartitions(mainstem_topic, 2)])[mainstem_topic].result(30)
    with Log(mainstem_broker.bootstrap) as fresh:
        fresh.append(mainstem_topic, b"v", partition=1)
    assert stream.next() == [f"{mainstem_topic}/1:0-1"]


def test_offsets_that_were_removed_stop_a_stream_and_are_named_with_what_removed_them(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    stream = Stream(mainstem_broker, subscribe=topic)
    fill(mainstem_log, topic, 2)
    stream.next()
    fill(mainstem_log, topic, 5)
    delete_records(mainstem_broker.bootstrap, topic, 1, 6)
    with pytest.raises(
        OffsetOutOfRangeError, match=rf"{topic}/1: offsets 2 to 5 \(removed by retention.ms=604800000, or"
    ):
        stream.next()


def test_a_stream_that_may_lose_offsets_notes_them_and_goes_on(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = Stream(mainstem_broker, subscribe=topic, failOnDataLoss="false", kafka_group_id=f"of-{topic}")
    fill(mainstem_log, topic, 2)
    stream.next()
    fill(mainstem_log, topic, 5)
    delete_records(mainstem_broker.bootstrap, topic, 1, 6)
    assert stream.next() == [f"{topic}/0:2-7", f"{topic}/1:6-7"]
    (loss,) = recorded_losses(mainstem_log, f"of-{topic}")
    assert (str(loss.topic_partition), loss.start, loss.end) == (f"{topic}/1", 2, 6)
    assert "offsets 2 to 5" in capfd.readouterr().err
    assert stream.next() == []
    stream.reader.stop()


def transaction(broker: EmbeddedBroker, topic: str) -> Producer:
    """One that is open, with a record in partition 0."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    producer.flush(60)
    return producer


def test_a_gap_of_aborted_records_is_no_loss(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    stream = Stream(mainstem_broker, subscribe=topic)
    transaction(mainstem_broker, topic).abort_transaction()
    mainstem_log.append(topic, b"v", partition=0)
    # Apache Kafka writes the transaction's marker after it has answered.
    assert eventually(stream.next, "the marker is there") == [f"{topic}/0:0-3"]


def test_records_of_an_open_transaction_and_behind_it_wait(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    stream = Stream(mainstem_broker, subscribe=topic)
    mainstem_log.append(topic, b"v", partition=0)
    open_transaction = transaction(mainstem_broker, topic)
    mainstem_log.append(topic, b"v", partition=0)
    assert stream.next() == [f"{topic}/0:0-1"]
    open_transaction.commit_transaction()
    assert eventually(stream.next, "the marker is there") == [f"{topic}/0:1-4"]


def made_again(log: Log, topic: str) -> None:
    log.delete_topic(topic)
    log.create_topic(topic, partitions=2)
    fill(log, topic, 1)


def test_a_topic_that_was_made_again_stops_a_stream(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    fill(mainstem_log, topic, 1)
    stream = Stream(mainstem_broker, subscribe=topic)
    stream.next()
    made_again(mainstem_log, topic)
    with pytest.raises(OffsetOutOfRangeError, match=r"from 1 on \(the topic was deleted and recreated.*new checkpoint"):
        stream.next()


def test_a_topic_that_was_made_again_is_noticed_though_metadata_are_old(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "METADATA_AGE_S_MAX", 600.0)
    fill(mainstem_log, topic, 1)
    stream = Stream(mainstem_broker, subscribe=topic)
    stream.next()
    made_again(mainstem_log, topic)
    with pytest.raises(OffsetOutOfRangeError, match="deleted and recreated"):
        stream.next()


def test_a_stream_that_may_lose_offsets_begins_at_a_topics_new_life(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    fill(mainstem_log, topic, 3)
    stream = Stream(mainstem_broker, subscribe=topic, failOnDataLoss="false", kafka_group_id=f"again-{topic}")
    stream.next()
    made_again(mainstem_log, topic)
    assert stream.next() == [f"{topic}/0:0-1", f"{topic}/1:0-1"]
    assert stream.next() == []
    assert [(loss.start, loss.end) for loss in recorded_losses(mainstem_log, f"again-{topic}")] == [(3, None)] * 2
    stream.reader.stop()


def test_a_topic_of_a_pattern_that_is_deleted_stops_a_stream(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "_LOOK_AGAIN_S", 0.0)
    fill(mainstem_log, topic, 1)
    stream = Stream(mainstem_broker, subscribe="", subscribePattern=topic)
    stream.next()
    mainstem_log.delete_topic(topic)
    with pytest.raises(OffsetOutOfRangeError, match="the topic was deleted"):
        stream.next()


def test_a_topic_that_is_made_again_between_plan_and_task_is_not_read_as_the_former_one(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    options = ReadOptions.parse({"kafka.bootstrap.servers": mainstem_broker.bootstrap, "subscribe": topic})
    fill(mainstem_log, topic, 3)
    (task,) = LogReader(options, StructType()).partitions()
    made_again(mainstem_log, topic)
    fill(mainstem_log, topic, 3)
    with pytest.raises(MainstemError, match=r"deleted.* recreated"):
        list(read_partition(task, options, StructType().add("value", "binary")))


def test_offsets_that_are_removed_between_plan_and_task_are_noted_as_well(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    stream = Stream(mainstem_broker, subscribe=topic, failOnDataLoss="false", kafka_group_id=f"task-{topic}")
    fill(mainstem_log, topic, 5)
    end = stream.reader.latestOffset(initial := stream.reader.initialOffset(), ReadAllAvailable())
    (task,) = stream.reader.partitions(initial, end)
    delete_records(mainstem_broker.bootstrap, topic, 1, 3)
    schema = StructType().add("partition", "integer").add("offset", "long")
    rows = [row for batch in read_partition(task, stream.parsed, schema) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows if row["partition"] == 1] == [3, 4]
    assert [(loss.start, loss.end) for loss in recorded_losses(mainstem_log, f"task-{topic}")] == [(0, 3)]
    stream.reader.stop()


def test_a_table_begins_where_its_log_does(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    mainstem_log.append_many(topic, [NewRecord({"a": n}, key=f"k{n}", partition=0) for n in range(4)])
    delete_records(mainstem_broker.bootstrap, topic, 0, 2)
    given = {"subscribe": topic, "table": "true", "valueSchema": "a INT"}
    options = ReadOptions.parse({"kafka.bootstrap.servers": mainstem_broker.bootstrap, **given})
    tasks = LogReader(options, StructType()).partitions()
    schema = StructType().add("a", "integer")
    rows = [row["a"] for task in tasks for batch in read_partition(task, options, schema) for row in batch.to_pylist()]
    assert sorted(rows) == [2, 3]


def test_backlog_is_reported(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    fill(mainstem_log, topic, 5)
    stream = Stream(mainstem_broker, subscribe=topic, maxOffsetsPerTrigger="4")
    assert stream.reader.reportLatestOffset() is None
    stream.next()
    assert stream.reader.reportLatestOffset() == {
        "position": {f"{topic}/0": 5, f"{topic}/1": 5},
        "backlog": 6,
        "backlogs": {f"{topic}/0": 3, f"{topic}/1": 3},
    }


def test_the_offsets_of_a_stream_are_committed_to_a_group_of_its_own(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    fill(mainstem_log, topic, 5)
    stream = Stream(mainstem_broker, subscribe=topic, groupIdPrefix=f"own-{topic}")
    stream.next()
    stream.next()
    stream.reader.stop()

    def committed() -> list[tuple[int | None, int | None]]:
        groups = [name for name in mainstem_log.groups() if name.startswith(f"own-{topic}-")]
        described = [mainstem_log.group_admin.describe(group) for group in groups]
        return [(part.committed, part.lag) for each in described for part in each.progress]

    # A stop waits for a second at most for the commit that is under way.
    eventually(lambda: committed() == [(5, 0), (5, 0)], "the offsets are committed")


def test_a_group_that_refuses_does_not_fail_a_stream(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    consumer = Consumer({"bootstrap.servers": mainstem_broker.bootstrap, "group.id": f"busy-{topic}"})
    joined: list[Any] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: joined.append(partitions))
    while not joined:
        consumer.poll(0.1)
    fill(mainstem_log, topic, 1)
    stream = Stream(mainstem_broker, subscribe=topic, kafka_group_id=f"busy-{topic}")
    assert len(stream.next()) == 2
    stream.next()
    stream.reader.stop()
    consumer.close()
    said: list[str] = []

    def is_told() -> bool:
        said.append(capfd.readouterr().err)
        return "has members" in "".join(said)

    eventually(is_told, "the refusal is told")
    assert "".join(said).count("has members") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":1}}'}, "TOPIC/1 is missing"),
        ({"startingOffsets": '{"TOPIC":{"0":1,"1":1,"2":1}}'}, "TOPIC/2 does not exist"),
        ({"startingOffsets": '{"TOPIC":{"0":1,"1":9}}'}, "TOPIC/1 has 9, but ends at 5"),
        ({"startingOffsets": "", "startingTimestamp": "9000000000000"}, "has no record at or after 9000000000000"),
        ({"assign": '{"TOPIC":[7]}', "subscribe": ""}, "there is no partition TOPIC/7"),
        ({"subscribe": "nowhere"}, "there is no topic nowhere"),
    ],
)
def test_what_a_stream_cannot_start_from_is_refused(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, options: dict[str, str], message: str
) -> None:
    fill(mainstem_log, topic, 5)
    named = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    with pytest.raises((ConfigError, UnknownTopicError), match=message.replace("TOPIC", topic)):
        Stream(mainstem_broker, **{"subscribe": topic, **named}).next()


def test_a_stream_starts_at_a_time(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    mainstem_log.append_many(topic, [NewRecord(b"v", partition=0, timestamp_ms=1000 * n) for n in range(1, 6)])
    options = {"startingOffsets": "", "startingTimestamp": "3000", "startingOffsetsByTimestampStrategy": "latest"}
    assert Stream(mainstem_broker, subscribe=topic, **options).next() == [f"{topic}/0:2-5"]
