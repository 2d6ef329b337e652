"""A mirror beside MirrorMaker 2, for the same job: ``python -m benchmarks.mirror``.

A topic of Apache Kafka, written in transactions, is copied to a Mainstem log, in turn by ``mainstem mirror`` and by
MirrorMaker 2 (Kafka's Connect, one node, a task for each partition). *rate*: from the first record at the target to the
last. *whole*: from the start of the process to the last record. Memory is what the process has for itself (RssAnon) at
the end. *differ*: the records whose offset at the target is not that of the source. Exit code 0 whatever was met.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.harness import child_environment
from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka, fetch_jars
from tests.support.ports import free_port

from benchmarks.brokers import Mainstem, resident_mb
from benchmarks.report import judgement, load_line, machine_load
from mainstem.client.wire.cluster.cluster import LATEST, WireClient
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition as Partition

TOPIC = "load"
PARTITIONS = 4
_IN_A_TRANSACTION = 1000
_RECORD_BYTES = 1000
_GIVE_UP_S = 280.0
_POLL_S = 0.02
_POM = Path(__file__).with_name("mirror_maker") / "pom.xml"
_OURS, _PEER = "Mainstem", f"MirrorMaker {KAFKA_VERSION}"
_JVM = ["-Xms256M", "-Xmx2G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    jars = fetch_jars(_POM, f"mirror-maker-{KAFKA_VERSION}")
    load = machine_load()
    found: dict[str, list[dict[str, float]]] = {_OURS: [], _PEER: []}
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as root, ApacheKafka() as source:
        _fill(source.bootstrap, arguments.records)
        for number in range(arguments.rounds):
            for name in found:
                directory = Path(root) / f"{number}-{name.split()[0]}"
                target = Mainstem(directory)
                target.start()
                try:
                    starter = _mainstem(source, target) if name == _OURS else _mirror_maker(source, target, root, jars)
                    found[name].append(_measure(starter, source.bootstrap, target.bootstrap, arguments.records))
                finally:
                    target.stop()
                print(f"{name}: {found[name][-1]}", file=sys.stderr)
    _report(found, load, as_json=arguments.json)
    return 0


def _fill(bootstrap: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "load", "linger.ms": 20})
    producer.init_transactions()
    for first in range(0, records, _IN_A_TRANSACTION):
        producer.begin_transaction()
        for number in range(first, min(first + _IN_A_TRANSACTION, records)):
            producer.produce(TOPIC, (b"%d " % number).ljust(_RECORD_BYTES, b"x"), partition=number % PARTITIONS)
        producer.commit_transaction()


@contextmanager
def _mainstem(source: ApacheKafka, target: Mainstem) -> Iterator[int]:
    argv = [sys.executable, "-m", "mainstem.cli.main", "mirror"]
    argv += ["--from", source.bootstrap, "--to", target.bootstrap, "--topics", TOPIC]
    with _process(argv) as pid:
        yield pid


@contextmanager
def _mirror_maker(source: ApacheKafka, target: Mainstem, root: str, jars: Path) -> Iterator[int]:
    settings = {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "B->A.enabled": "false",
        "A->B.topics": TOPIC,
        "tasks.max": str(PARTITIONS),
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    path = Path(root) / f"mm2-{time.monotonic_ns()}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    with _process(["java", *_JVM, "-cp", f"{jars}/*", main_class, str(path)], path.with_suffix(".log")) as pid:
        yield pid


@contextmanager
def _process(argv: list[str], output: Path = Path("/dev/null")) -> Iterator[int]:
    with output.open("wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=child_environment())
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def _measure(starter: object, source: str, target: str, records: int) -> dict[str, float]:
    began_s = time.monotonic()
    with starter as pid:  # type: ignore[attr-defined]
        first_s, last_s = _watch(source, target, records)
        memory = resident_mb(pid)
    differ = _differ(source, target)
    return {
        "rate": records / max(last_s - first_s, _POLL_S),
        "whole": records / (last_s - began_s),
        "memory": memory,
        "differ": differ,
    }


def _watch(source: str, target: str, records: int) -> tuple[float, float]:
    """When the first records were at the target, and when all were."""
    tps = [Partition(TOPIC, number) for number in range(PARTITIONS)]
    until_s, first_s = time.monotonic() + _GIVE_UP_S, 0.0
    with WireClient(source) as there, WireClient(target, timeout_s=5) as here:
        ends = there.list_offsets(tps, LATEST)
        while time.monotonic() < until_s:
            try:
                copied = here.list_offsets(tps, LATEST) if TOPIC in here.metadata([TOPIC]) else {}
            except MainstemError:
                copied = {}
            if not first_s and sum(copied.values()):
                first_s = time.monotonic()
            if copied == ends or sum(copied.values()) == records:
                return first_s, time.monotonic()
            time.sleep(_POLL_S)
    raise TimeoutError(f"not copied within {_GIVE_UP_S:g} s")


def _differ(source: str, target: str) -> int:
    there, here = _offsets(source), _offsets(target)
    return sum(here.get(value) != offset for value, offset in there.items())


def _offsets(bootstrap: str) -> dict[bytes, tuple[int, int]]:
    options = {"bootstrap.servers": bootstrap, "group.id": "differ", "enable.partition.eof": True}
    consumer = Consumer({**options, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found, left = {}, PARTITIONS
    while left:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is not None:
                left -= 1
            else:
                found[message.value().partition(b" ")[0]] = (message.partition(), message.offset())
    consumer.close()
    return found


def _report(found: dict[str, list[dict[str, float]]], load: float, *, as_json: bool) -> None:
    figures = {
        name: {figure: median(each[figure] for each in rounds) for figure in rounds[0]}
        for name, rounds in found.items()
    }
    ratio = figures[_OURS]["rate"] / figures[_PEER]["rate"]
    if as_json:
        print(json.dumps({"figures": figures, "rounds": found, "load": load}))
        return
    print(load_line(load))
    for figure, unit in (("rate", "records/s"), ("whole", "records/s"), ("memory", "MB"), ("differ", "records")):
        values = "   ".join(f"{name} {each[figure]:>10,.0f}" for name, each in figures.items())
        print(f"{figure:>7}  {values}  {unit}")
    print(f"rate, Mainstem : MirrorMaker = {ratio:.2f} (goal 2: {judgement(is_met=ratio >= 2, load=load)})")


if __name__ == "__main__":
    sys.exit(main())
