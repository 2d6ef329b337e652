"""Topics that the Spark benchmark reads, filled by raw record batches; and the load of its latencies."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.encodings.encoders import encoder_of
from mainstem.model import TopicPartition
from mainstem.pipelines.kinds import Lake
from mainstem.record.arrow_encode import encode
from mainstem.schema.infer import schema_of
from mainstem.schemas_topic.frames import frame_of
from mainstem.views.feed.feed import Feed, end_of
from mainstem.views.stores.lake.lake import LakeStore
from mainstem.views.stores.store import StoreDefinition, no_dead_letters

KEYS = 10_000
"""Different keys of a topic."""
_BATCH_BYTES = 64 * 1024
_ROWS = 20_000
_TIMEOUT_S = 30.0
_DIGITS = re.compile(rb"\d+")
_FIRST_S_MAX = 180.0


def fill(bootstrap: str, topic: str, records: int, record_bytes: int, partitions: int) -> None:
    """So many records with keys of 8 bytes and random values, in batches of 64 kB, evenly over the partitions."""
    generator = np.random.default_rng(records)
    with WireClient(bootstrap, timeout_s=_TIMEOUT_S) as client:
        for number in range(-(-records // _ROWS)):
            count = min(_ROWS, records - number * _ROWS)
            keys = pa.array([b"key-%04d" % key for key in generator.integers(0, KEYS, count)], pa.binary())
            values = pa.Array.from_buffers(
                pa.binary(),
                count,
                [
                    None,
                    pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(record_bytes)),
                    pa.py_buffer(os.urandom(count * record_bytes)),
                ],
            )
            now_ms = time.time_ns() // 1_000_000
            for batch in encode(keys, values, timestamps_ms=now_ms, max_batch_bytes=_BATCH_BYTES):
                client.produce(TopicPartition(topic, number % partitions), batch)


class Latencies(NamedTuple):
    """From the producer's call to the derived record in a consumer's hands, in milliseconds."""

    p50: float
    p99: float
    records: int


FLIGHT_DDL = "flight_id STRING, origin STRING, dest STRING, dep_delay DOUBLE, distance INT"


def fill_flights(bootstrap: str, topic: str, records: int, partitions: int) -> None:
    """So many flights as JSON of some 110 bytes, with their ids as keys, evenly over the partitions."""
    generator = np.random.default_rng(records)
    places = np.array(["EWR", "JFK", "LGA", "IAH", "SFO", "LAX"])
    with WireClient(bootstrap, timeout_s=_TIMEOUT_S) as client:
        for first in range(0, records, _ROWS):
            count = min(_ROWS, records - first)
            ids = range(first, first + count)
            pairs = zip(ids, generator.choice(places, (count, 2)), generator.integers(-20, 600, count), strict=True)
            values = [
                f'{{"flight_id": "flight-{n}", "origin": "{a}", "dest": "{b}", '
                f'"dep_delay": {d / 4}, "distance": {n % 3000}}}'
                for n, (a, b), d in pairs
            ]
            keys = pa.array([b"flight-%d" % n for n in ids], pa.binary())
            now_ms = time.time_ns() // 1_000_000
            batches = encode(keys, pa.array(values), timestamps_ms=now_ms, max_batch_bytes=_BATCH_BYTES)
            for batch in batches:
                client.produce(TopicPartition(topic, (first // _ROWS) % partitions), batch)


class AvroTopic(NamedTuple):
    """The schema of a topic's values, as JSON, and the frame that they begin with."""

    schema: str
    frame: bytes


def fill_avro_flights(bootstrap: str, topic: str, records: int, partitions: int) -> AvroTopic:
    """So many flights as framed Avro, with their ids as keys, evenly over the partitions."""
    columns = schema_of(FLIGHT_DDL)
    with Log(bootstrap) as log:
        encoder = encoder_of(log, topic, columns, "avro")
    generator = np.random.default_rng(records)
    places = np.array(["EWR", "JFK", "LGA", "IAH", "SFO", "LAX"])
    with WireClient(bootstrap, timeout_s=_TIMEOUT_S) as client:
        for first in range(0, records, _ROWS):
            count = min(_ROWS, records - first)
            ids = pa.array([f"flight-{n}" for n in range(first, first + count)])
            rows = {
                "flight_id": ids,
                "origin": pa.array(generator.choice(places, count)),
                "dest": pa.array(generator.choice(places, count)),
                "dep_delay": pa.array(generator.integers(-20, 600, count) / 4),
                "distance": pa.array(np.arange(first, first + count, dtype=np.int32) % 3000),
            }
            values = encoder.encode(pa.RecordBatch.from_pydict(rows))
            now_ms = time.time_ns() // 1_000_000
            for batch in encode(ids.cast(pa.binary()), values, timestamps_ms=now_ms, max_batch_bytes=_BATCH_BYTES):
                client.produce(TopicPartition(topic, (first // _ROWS) % partitions), batch)
    return AvroTopic(encoder.text, frame_of(encoder.schema_id))


def archive(bootstrap: str, topic: str, directory: str) -> None:
    """Everything that is in a topic into a lake, as a Lake view's applier does it."""
    definition = StoreDefinition(topic, Lake(), schema_of(FLIGHT_DDL))
    store = LakeStore(Path(directory), definition)
    with WireClient(bootstrap, timeout_s=_TIMEOUT_S) as client:
        feed = Feed(client, topic, store.bookmark, end_of(client, topic), columns=definition.reads)
        while not feed.is_at_end:
            if (step := feed.step(500)) is not None:
                store.apply(step.arrow_batch, step.bookmark, no_dead_letters)
                store.settle()
    store.close()


def through(
    bootstrap: str, source: str, derived: str, *, rate: int, warm_s: float, seconds: float, form: bytes = b"%d"
) -> Latencies:
    """Produce at ``rate`` into ``source`` while a stream copies to ``derived``, from which a consumer reads committed.

    Each value is ``form`` with the time when it was produced, in nanoseconds. The load begins when a first record has
    come through, and the records of its first ``warm_s`` do not count.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"latency-{derived}",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "enable.auto.commit": False,
        }
    )
    consumer.assign(_ends(consumer, derived))
    _send(bootstrap, source, rate, 1, form)
    if not _taken(consumer, 1, _FIRST_S_MAX):
        consumer.close()
        raise RuntimeError(f"no record reached {derived} within {_FIRST_S_MAX:g} s")
    total = int(rate * (warm_s + seconds))
    sender = threading.Thread(target=_send, args=(bootstrap, source, rate, total, form), daemon=True)
    sender.start()
    try:
        taken = sorted(_taken(consumer, total, warm_s + seconds + _TIMEOUT_S))
    finally:
        consumer.close()
        sender.join(_TIMEOUT_S)
    counted = np.array([ms for sent_ns, ms in taken if sent_ns >= taken[0][0] + warm_s * 1e9])
    if not len(counted):
        raise RuntimeError(f"only {len(taken)} of {total} records reached {derived}")
    return Latencies(float(np.percentile(counted, 50)), float(np.percentile(counted, 99)), len(counted))


def _ends(consumer: Consumer, topic: str) -> list[confluent_kafka.TopicPartition]:
    """Where to read what comes from now on."""
    partitions = consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
    ends = [confluent_kafka.TopicPartition(topic, number) for number in partitions]
    for end in ends:
        _, end.offset = consumer.get_watermark_offsets(end, _TIMEOUT_S)
    return ends


def _taken(consumer: Consumer, count: int, timeout_s: float) -> list[tuple[int, float]]:
    """When each record was sent, and how many milliseconds later it was here."""
    taken: list[tuple[int, float]] = []
    deadline_s = time.monotonic() + timeout_s
    while len(taken) < count and time.monotonic() < deadline_s:
        for message in consumer.consume(1000, 0.01):
            if message.error() is None:
                now_ns, sent_ns = time.time_ns(), int(_DIGITS.findall(message.value() or b"0")[0])
                taken.append((sent_ns, (now_ns - sent_ns) / 1e6))
    return taken


def _send(bootstrap: str, topic: str, rate: int, total: int, form: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    begin_s = time.monotonic()
    for number in range(total):
        wait_s = begin_s + number / rate - time.monotonic()
        if wait_s > 0:
            producer.poll(0)
            time.sleep(wait_s)
        producer.produce(topic, form % time.time_ns(), key=b"key-%04d" % (number % 100))
    producer.flush(_TIMEOUT_S)
