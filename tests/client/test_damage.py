"""Reading on behind records that are in the log and cannot be read."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import DamagedRecordsError, InputError, MainstemError
from mainstem.model import TopicPartition
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.damage import DAMAGES, Damage, plant

TOPIC = "flights"
TP = TopicPartition(TOPIC, 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "log") as broker:
        yield broker


@pytest.fixture
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap, timeout_s=10) as log:
        yield log


def fill(log: Log) -> None:
    """Three batches of three records each: offsets 0 to 8."""
    log.create_topic(TOPIC, partitions=1)
    for batch in range(3):
        log.append_many(TOPIC, [(f"k{batch}", f"{3 * batch + number}") for number in range(3)])


def damage(broker: EmbeddedBroker, offset: int, how: Damage) -> tuple[int, int]:
    broker._stop_broker()
    found = plant(broker.directory, TP, offset, how)
    broker.start()
    return found


@pytest.mark.parametrize("how", DAMAGES)
def test_a_read_stops_at_damage_and_names_its_offsets(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    fill(log)
    assert damage(broker, 4, how) == (3, 5)
    reader = log.read(TOPIC)
    assert [next(reader).offset for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DamagedRecordsError, match=r"^flights/0:3-5 cannot be read: .*on_damaged=skip") as raised:
        next(reader)
    assert (raised.value.topic_partition, raised.value.first_offset, raised.value.last_offset) == (TP, 3, 5)
    with pytest.raises(DamagedRecordsError):
        next(reader)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize(("offset", "left"), [(0, range(3, 9)), (4, [0, 1, 2, 6, 7, 8]), (8, range(6))])
def test_a_read_goes_on_behind_damage_that_it_may_skip(
    broker: EmbeddedBroker, log: Log, how: Damage, offset: int, left: list[int]
) -> None:
    fill(log)
    first, last = damage(broker, offset, how)
    reader = log.read(TOPIC, on_damaged="skip")
    assert [record.offset for record in reader] == list(left)
    assert [found.offsets for found in reader.damaged] == [f"flights/0:{first}-{last}"]
    assert reader.position == log.end(TOPIC)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_read_that_ends_within_damage_ends_there(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    fill(log)
    damage(broker, 4, how)
    reader = log.read(TOPIC, end=4, on_damaged="skip")
    assert [record.offset for record in reader] == [0, 1, 2]
    assert reader.position[TP] == 4


@pytest.mark.parametrize("how", DAMAGES)
def test_a_follower_goes_on_behind_damage(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    fill(log)
    damage(broker, 4, how)
    with log.follow(TOPIC, start="earliest") as stopping, pytest.raises(DamagedRecordsError, match="flights/0:3-5"):
        list(stopping)
    with log.follow(TOPIC, start="earliest", on_damaged="skip") as follower:
        assert [next(follower).offset for _ in range(6)] == [0, 1, 2, 6, 7, 8]
        assert [found.offsets for found in follower.damaged] == ["flights/0:3-5"]


@pytest.mark.parametrize("how", DAMAGES)
def test_what_a_follower_takes_before_damage_is_not_lost(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    fill(log)
    damage(broker, 4, how)
    taken: list[int] = []
    with log.follow(TOPIC, start="earliest") as stopping:
        while len(taken) < 3:
            taken += [record.offset for record in stopping.take(1 << 20)]
        with pytest.raises(DamagedRecordsError, match="flights/0:3-5"):
            stopping.take(1 << 20)
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_key_is_read_on_behind_damage(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    fill(log)
    log.append(TOPIC, "again", key="k0")
    damage(broker, 4, how)
    with pytest.raises(DamagedRecordsError):
        list(log.read(TOPIC, key="k0"))
    assert [record.offset for record in log.read(TOPIC, key="k0", on_damaged="skip")] == [0, 1, 2, 9]


@pytest.mark.parametrize("how", DAMAGES)
def test_two_damaged_batches_with_a_good_one_between_cost_nothing_else(
    broker: EmbeddedBroker, log: Log, how: Damage
) -> None:
    fill(log)
    damage(broker, 0, how)
    damage(broker, 8, how)
    reader = log.read(TOPIC, on_damaged="skip")
    assert [record.offset for record in reader] == [3, 4, 5]
    assert [found.offsets for found in reader.damaged] == ["flights/0:0-2", "flights/0:6-8"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_abort_marker_hides_nothing_that_came_after(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    log.create_topic(TOPIC, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "one"})
    producer.init_transactions()
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(TOPIC, value, partition=0)
        producer.flush()
        end()
    damage(broker, 1, how)
    reader = log.read(TOPIC, on_damaged="skip")
    assert [record.value for record in reader if record.offset > 1] == [b"committed"]


def test_other_clients_are_answered_as_by_kafka(broker: EmbeddedBroker, log: Log) -> None:
    fill(log)
    damage(broker, 4, "checksum")
    options = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "check.crcs": True})
    consumer.subscribe([TOPIC])
    seen: list[int | None] = []
    while len(seen) < 3:
        seen += [message.offset() for message in consumer.consume(10, 1.0) if message.error() is None]
    consumer.close()
    assert seen == [0, 1, 2]


def test_an_unknown_word_for_damage_is_refused(log: Log) -> None:
    fill(log)
    with pytest.raises(InputError, match="invalid on_damaged 'maybe': use one of stop, skip"):
        log.read(TOPIC, on_damaged="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_time_is_found_behind_damage_that_a_read_may_skip(broker: EmbeddedBroker, log: Log, how: Damage) -> None:
    log.create_topic(TOPIC, partitions=1)
    for number in range(3):
        log.append_many(TOPIC, [NewRecord(str(number), timestamp_ms=1_000 * number)])
    damage(broker, 1, how)
    reader = log.read(TOPIC, start=datetime.datetime.fromtimestamp(1.5, datetime.UTC), on_damaged="skip")
    assert [record.value for record in reader] == [b"2"]
    with pytest.raises(MainstemError):
        list(log.read(TOPIC, start=datetime.datetime.fromtimestamp(1, datetime.UTC)))
