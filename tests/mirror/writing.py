"""What real clients write: every kind of batch that a mirror has to keep."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

QUIET = {"log_level": 0}


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(30)


def produce(bootstrap: str, topic: str, count: int, *, begin: int = 0, **options: object) -> None:
    """Numbered records with a few keys, from an idempotent producer."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **QUIET, **options}
    )
    for number in range(begin, begin + count):
        producer.produce(topic, b"%d" % number, key=b"k%d" % (number % 5), headers={"n": b"%d" % number})
        if number % 20 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def produce_plainly(bootstrap: str, topic: str, count: int, *, begin: int = 0) -> None:
    """The same from a producer without an id, for which librdkafka waits half a second."""
    produce(bootstrap, topic, count, begin=begin, **{"enable.idempotence": False})


def transactions(bootstrap: str, topic: str, count: int, name: str) -> None:
    """Transactions, every second one aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **QUIET})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(topic, b"%s-%d-%d" % (name.encode(), number, each), key=b"k%d" % each)
        if number % 2:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)


def read(bootstrap: str, topic: str, *, committed: bool = True, partitions: int = 1) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of all records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, left = [], partitions
    while left:
        message = consumer.poll(30)
        assert message is not None, "the consumer got nothing within 30 s"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            left -= 1
            continue
        found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return sorted(found)


def consume_some(bootstrap: str, topic: str, group: str, count: int, **options: str) -> int:
    """Let a group read so many records and commit; the offset that it committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
            **options,
        }
    )
    consumer.subscribe([topic])
    last = None
    for _ in range(count):
        while (message := consumer.poll(30)) is None or message.error() is not None:
            assert message is None, message.error()
        last = message
    assert last is not None
    consumer.commit(message=last, asynchronous=False)
    consumer.close()
    return int(last.offset()) + 1
