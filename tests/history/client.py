"""One client of a history, as a process of its own: ``python -m tests.history.client --kind … --out FILE``.

Kinds: ``plain`` sends and polls one by one, with assigned partitions; ``transactions`` puts several sends and polls
into a transaction; ``group`` polls as a member of a group and commits; ``mover`` moves what a group reads in one topic
into another, with the offsets in the same transaction. It ends when its time is over, and may be killed at any moment.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.operations import FAIL, INFO, OK, Operation, Poll, Send, to_line

HUNG: Final = 75
"""The exit code of a client that gave up waiting for its own library."""
_CALL_S: Final = 12.0
_HANGS_S: Final = 25.0
_BREATH_S: Final = 0.1
"""After an error: the log is being killed and started, and a client that hammers it learns nothing."""
_QUIET: Final = {"log_level": 0, "reconnect.backoff.max.ms": 500}


class Writer:
    """The client's own file: what begins is written before it is done."""

    def __init__(self, name: str, out: TextIO) -> None:
        self.name = name
        self._out = out
        self._place = 0

    def begin(self, steps: list[Send | Poll], **more: Any) -> int:
        self._place += 1
        self._write(INFO, self._place, steps, more)
        return self._place

    def end(self, place: int, status: str, steps: list[Send | Poll], **more: Any) -> None:
        self._write(status, place, steps, more)

    def _write(self, status: str, place: int, steps: list[Send | Poll], more: dict[str, Any]) -> None:
        self._out.write(to_line(Operation(self.name, place, status, tuple(steps), **more)) + "\n")
        self._out.flush()


class Client:
    """What all kinds share: a producer, a consumer, and unique values."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.options = arguments
        self.random = random.Random(arguments.seed)
        self.writer = Writer(arguments.name, Path(arguments.out).open("a"))  # noqa: SIM115  (until the process ends)
        self.deadline_s = time.monotonic() + arguments.seconds
        self.values = 0
        self.assignment = 0
        self._alive_s = time.monotonic()
        threading.Thread(target=self.watch, daemon=True).start()

    def value(self) -> str:
        self.values += 1
        return f"{self.options.name}-{self.values}"

    def partition(self) -> int:
        return self.random.randrange(self.options.partitions)

    def producer(self, **more: Any) -> Producer:
        settings = {"bootstrap.servers": self.options.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        return Producer({**settings, **_QUIET, "delivery.timeout.ms": 18_000, **more})

    def reader(self, group: str, **more: Any) -> Reader:
        settings = {
            "bootstrap.servers": self.options.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 300,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        return Reader(Consumer({**settings, **_QUIET, **more}))

    def assigned(self) -> Reader:
        """A reader of every partition from its beginning."""
        reader = self.reader(f"nobody-{uuid.uuid4().hex}")
        topic, count = self.options.topic, self.options.partitions
        reader.consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
        self.assignment += 1
        return reader

    def complain(self, error: KafkaException) -> None:
        """What went wrong, to standard error, for who looks into a history that failed."""
        if not isinstance(error.args[0], KafkaError):
            sys.stderr.write(f"{self.options.name} at {self.values}: {error.args[0]}\n")
            return
        sys.stderr.write(f"{self.options.name} at {self.values}: {error.args[0].name()} {error.args[0].str()}\n")

    def is_over(self) -> bool:
        """Asked between operations, which shows that none of them hangs."""
        self._alive_s = time.monotonic()
        return self._alive_s >= self.deadline_s

    def watch(self) -> None:
        """End the process when a call of the client library does not return, its own time limit notwithstanding:
        librdkafka's ``send_offsets_to_transaction`` does so when the connection breaks at the wrong moment.
        """
        while time.monotonic() - self._alive_s < _HANGS_S:
            time.sleep(1.0)  # a watchdog's own pace
        sys.stderr.write(f"{self.options.name} hangs\n")
        os._exit(HUNG)


class Reader:
    """A consumer, and which of its partitions it has read to their ends."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.at_end: set[str] = set()

    def poll(self, most: int, timeout_s: float) -> Poll:
        """What came; errors are the client's to get over, and bring nothing."""
        records: dict[str, list[tuple[int, str]]] = {}
        for message in self.consumer.consume(most, timeout_s):
            place, error = f"{message.topic()}/{message.partition()}", message.error()
            if error is None:
                self.at_end.discard(place)
                records.setdefault(place, []).append((int(message.offset() or 0), (message.value() or b"").decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.at_end.add(place)
        return Poll(records)


def send(producer: Producer, topic: str, partition: int, value: str, done: Callable[[Any, Message], None]) -> None:
    producer.produce(topic, value.encode(), partition=partition, on_delivery=done)


def plain(client: Client) -> None:
    """Sends with up to five in flight, and polls between them."""
    # A record that times out makes librdkafka take a new producer epoch, and send what may be there already once more.
    producer, reader = client.producer(**{"delivery.timeout.ms": 120_000}), client.assigned()
    while not client.is_over():
        for _ in range(client.random.randrange(1, 6)):
            _plain_send(client, producer)
        producer.poll(0.01)
        _plain_poll(client, reader)
    producer.flush(_CALL_S)
    reader.consumer.close()


def _plain_send(client: Client, producer: Producer) -> None:
    number, value = client.partition(), client.value()
    place_name = f"{client.options.topic}/{number}"
    place = client.writer.begin([Send(place_name, value)])

    def done(error: KafkaError | None, message: Message) -> None:
        if error is None:
            client.writer.end(place, OK, [Send(place_name, value, message.offset())])

    send(producer, client.options.topic, number, value, done)


def _plain_poll(client: Client, reader: Reader) -> None:
    got = reader.poll(50, 0.05)
    if got.records:
        client.writer.end(client.writer.begin([]), OK, [got], assignment=client.assignment)


def transactions(client: Client) -> None:
    """Transactions of a few sends and polls; one in eight is aborted on purpose."""
    reader = client.assigned()
    while not client.is_over():
        producer = client.producer(**{"transactional.id": client.options.name, "transaction.timeout.ms": 20_000})
        try:
            producer.init_transactions(_CALL_S)
            while not client.is_over():
                _transaction(client, producer, reader)
        except KafkaException as error:
            client.complain(error)
            time.sleep(_BREATH_S)
        finally:
            producer.purge()
    reader.consumer.close()


def _transaction(client: Client, producer: Producer, reader: Reader) -> None:
    """Raises KafkaException when the producer is of no use any more."""
    steps: list[Send | Poll] = []
    acknowledged: dict[str, int] = {}
    planned = [(client.partition(), client.value()) for _ in range(client.random.randrange(1, 5))]
    sends = [Send(f"{client.options.topic}/{number}", value) for number, value in planned]
    place = client.writer.begin(list(sends), is_transaction=True)
    common = {"is_transaction": True, "assignment": client.assignment}
    status = FAIL
    try:
        producer.begin_transaction()
        for (number, value), _ in zip(planned, sends, strict=True):
            _send_within(producer, client.options.topic, number, value, acknowledged)
            steps.append(reader.poll(10, 0.01))
        if client.random.randrange(8) == 0:
            # What is still on its way when librdkafka aborts leaves its sequence number to the next record, which the
            # log then takes for that one, rightly: so nothing is on its way.
            producer.flush(_CALL_S)
            producer.abort_transaction(_CALL_S)
            if len(acknowledged) < len(sends):
                raise SpentProducerError("a record of an aborted transaction was not acknowledged")
        else:
            status = commit(producer)
    except UnknownEndError:
        status = INFO
        raise
    finally:
        done = [Send(item.partition, item.value, acknowledged.get(item.value)) for item in sends]
        client.writer.end(place, status, [*done, *steps], **common)


def _send_within(producer: Producer, topic: str, number: int, value: str, acknowledged: dict[str, int]) -> None:
    def done(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged[value] = int(message.offset() or 0)

    send(producer, topic, number, value, done)
    producer.poll(0)


def commit(producer: Producer) -> str:
    """How the transaction ended. Raises KafkaException when that is not known, or the producer is done for."""
    deadline_s = time.monotonic() + _CALL_S
    while True:
        try:
            producer.commit_transaction(_CALL_S)
            return OK
        except KafkaException as raised:
            error = raised.args[0]
            if error.txn_requires_abort():
                producer.abort_transaction(_CALL_S)
                raise SpentProducerError(error) from raised  # its sequence numbers are not to be relied on
            if not error.retriable() or time.monotonic() > deadline_s:
                raise UnknownEndError(error) from raised


class SpentProducerError(KafkaException):
    """The transaction is aborted, and the producer has to be made anew."""


class UnknownEndError(KafkaException):
    """The log was asked to commit, and nobody knows whether it did."""


def group(client: Client) -> None:
    """A member of a group that commits what it has read."""
    reader = client.reader(f"{client.options.topic}-readers", **{"group.protocol": client.options.protocol})
    reader.consumer.subscribe([client.options.topic])
    while not client.is_over():
        got = reader.poll(50, 0.1)
        if got.records:
            client.writer.end(client.writer.begin([]), OK, [got], assigned=False)
            reader.consumer.commit(offsets=_after(got), asynchronous=True)
    reader.consumer.close()


def mover(client: Client) -> None:
    """Read, write and commit in one transaction: exactly once from one topic into another.

    Whatever goes wrong: a new producer, which fences the one before, and a new member, which begins where the group is.
    """
    is_done = False
    while not is_done:
        producer = client.producer(**{"transactional.id": client.options.name, "transaction.timeout.ms": 20_000})
        reader = client.reader(f"{client.options.topic}-movers")
        try:
            producer.init_transactions(_CALL_S)
            reader.consumer.subscribe([client.options.topic])
            while not is_done and _move(client, producer, reader) == OK:
                is_done = _has_moved(client, reader)
        except KafkaException as error:
            client.complain(error)
            time.sleep(_BREATH_S)
        finally:
            producer.purge()
            reader.consumer.close()


def _has_moved(client: Client, reader: Reader) -> bool:
    """Whether its time is over; for the last one, whether there is nothing left to move."""
    is_over = client.is_over()
    return len(reader.at_end) == client.options.partitions if client.options.drain else is_over


def _move(client: Client, producer: Producer, reader: Reader) -> str:
    """How it ended. Raises KafkaException when the producer is of no use any more."""
    got = reader.poll(20, 0.1)
    if not got.records:
        return OK
    target = client.options.target
    values = [value for records in got.records.values() for _, value in records]
    sends = [Send(f"{target}/0", f"{value}@{client.value()}") for value in values]
    place = client.writer.begin(list(sends), is_transaction=True)
    status = FAIL
    try:
        producer.begin_transaction()
        for item in sends:
            _send_within(producer, target, 0, item.value, {})
        producer.send_offsets_to_transaction(_after(got), reader.consumer.consumer_group_metadata(), _CALL_S)
        status = commit(producer)
    except UnknownEndError:
        status = INFO
        raise
    finally:
        client.writer.end(place, status, [*sends, got], is_transaction=True, assigned=False)
    return status


def _after(got: Poll) -> list[TopicPartition]:
    """The positions after what came."""
    positions = []
    for place, records in got.records.items():
        topic, _, number = place.rpartition("/")
        positions.append(TopicPartition(topic, int(number), records[-1][0] + 1))
    return positions


KINDS: Final = {"plain": plain, "transactions": transactions, "group": group, "mover": mover}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "name", "topic", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--target", default="")
    parser.add_argument("--protocol", default="classic")
    parser.add_argument("--drain", action="store_true", help="a mover that ends when all is moved")
    parser.add_argument("--kind", choices=sorted(KINDS), required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    KINDS[arguments.kind](Client(arguments))


if __name__ == "__main__":
    main()
