"""A Kafka client and an HTTP client for the test of the images, as a program: it runs in the network of a container."""

from __future__ import annotations

import json
import sys
import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition

_BOOTSTRAP = "127.0.0.1:9092"
_HTTP = "http://127.0.0.1:8080"
_S_MAX = 60


def append(topic: str, value: str) -> str:
    """Append a record, and wait until the log has acknowledged it; the error, or nothing."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": _BOOTSTRAP, "acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(str(error)) if error else None)
    left = producer.flush(_S_MAX)
    return "; ".join([*errors, *(["not acknowledged"] if left else [])])


def read(topic: str) -> str:
    """The value of the first record of a topic's partition 0."""
    consumer = Consumer({"bootstrap.servers": _BOOTSTRAP, "group.id": "none", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(_S_MAX)
        return (record.value() or b"").decode() if record else ""
    finally:
        consumer.close()


def get(path: str) -> str:
    """The body of an answer over HTTP."""
    with urllib.request.urlopen(f"{_HTTP}{path}", timeout=_S_MAX) as answer:
        return str(json.load(answer))


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    sys.stdout.write({"append": append, "read": read, "get": get}[name](*words))
