"""What is measured of one broker, once: a round. Each function returns figures by name."""

from __future__ import annotations

import os
import socket
import struct
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.brokers import BrokerUnderTest, Mainstem, cpu_s, resident_mb
from benchmarks.load import LoadGenerator
from mainstem.client.bench import BenchOptions, bench
from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.writer import NewRecord, build_batch

Figures = dict[str, float]
_GIVE_UP_S = 90.0
_RETRY_S = 0.002
_LATEST = -1


def rates(
    broker: BrokerUnderTest,
    generator: LoadGenerator,
    record_bytes: int,
    records: int,
    configs: Mapping[str, str] | None = None,
) -> Figures:
    """Rates of producing and consuming, and the broker's processor time for each record, in a topic of its own."""
    topic = f"rates-{uuid.uuid4().hex[:12]}"
    figures = {}
    with Log(broker.bootstrap, timeout_s=30) as log:
        log.create_topic(topic, configs=configs)
        try:
            before_s = cpu_s(broker.pid)
            figures["produce"] = generator.produce(broker.bootstrap, topic, records, record_bytes)
            between_s = cpu_s(broker.pid)
            figures["consume"] = generator.consume(broker.bootstrap, topic, records)
            after_s = cpu_s(broker.pid)
        finally:
            log.delete_topic(topic)
    figures["produce CPU"] = (between_s - before_s) / records * 1e6
    figures["consume CPU"] = (after_s - between_s) / records * 1e6
    return figures


def small_requests(broker: BrokerUnderTest, count: int, added_ms: float) -> dict[str, Figures]:
    """One record of 1 kB at a time: end to end by the Python client, and single requests over a plain socket.

    ``added_ms`` is added to the median, for a broker that does not sync.
    """
    options = BenchOptions(records=1, latency_records=count, timeout_s=60)
    synced = bench(broker.bootstrap, options).latency
    configs = {"flush": "os"} if broker.name == Mainstem.name else {}
    unsynced = bench(broker.bootstrap, replace(options, topic_configs=configs)).latency
    return {
        "one at a time: ": {"p50": synced.p50_ms + added_ms, "p99": synced.p99_ms},
        "one at a time, flush=os: ": {"p50": unsynced.p50_ms},
        "one request: ": _request_cpu(broker, count),
    }


def _request_cpu(broker: BrokerUnderTest, count: int) -> Figures:
    """The broker's processor time of a produce request and of a fetch request of one record, in microseconds."""
    topic = f"requests-{uuid.uuid4().hex[:12]}"
    figures = {}
    with Log(broker.bootstrap, timeout_s=30) as log, RawConnection(broker.bootstrap) as connection:
        log.create_topic(topic)
        batch = build_batch([NewRecord(None, bytes(1_000), (), int(time.time() * 1000))])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        begin_s = cpu_s(broker.pid)
        for _ in range(count):
            answer = connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 8)
            assert answer.responses[0].partition_responses[0].error_code == 0
        produced_s = cpu_s(broker.pid)
        for offset in range(count):
            asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100)
            wanted = FetchTopic(topic=topic, partitions=[asked])
            fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=100, topics=[wanted])
            assert connection.request(fetch, 11).responses[0].partitions[0].records
        figures["produce CPU"] = (produced_s - begin_s) / count * 1e6
        figures["fetch CPU"] = (cpu_s(broker.pid) - produced_s) / count * 1e6
        log.delete_topic(topic)
    return figures


def sync_ms(directory: Path) -> float:
    """The median of one append of 1 kB with its fdatasync on the disk of ``directory``, in milliseconds."""
    taken_ms = []
    with (directory / "synced").open("wb", buffering=0) as file:
        for _ in range(500):
            begin_s = time.perf_counter()
            file.write(bytes(1_000))
            os.fdatasync(file.fileno())
            taken_ms.append((time.perf_counter() - begin_s) * 1e3)
    return median(taken_ms)


def first_acknowledgement(broker: BrokerUnderTest) -> Figures:
    """Seconds from spawning the process to the first record that it has acknowledged, in a topic made on the way."""
    begin_s = time.perf_counter()
    broker.spawn()
    _until_acknowledged(broker.bootstrap, "first")
    return {"start": time.perf_counter() - begin_s}


def memory(broker: BrokerUnderTest, gigabytes: float) -> Figures:
    """The broker's own resident memory after so many gigabytes went in and out."""
    bench(
        broker.bootstrap,
        BenchOptions(records=int(gigabytes * 1e6), record_bytes=1_000, latency_records=1, phase_s_max=120),
    )
    return {"resident": resident_mb(broker.pid)}


def fill(data: Path, gigabytes: float, partitions: int = 4) -> int:
    """Write so many gigabytes into a topic ``filled`` of a directory that no broker has open; returns the records."""
    batch = build_batch([NewRecord(None, bytes(1_000), (), 1_700_000_000_000) for _ in range(900)])
    log = NodeLog.open(OsDisk(), SystemClock(), data, {})
    topic = log.create_topic("filled", partitions, {})
    logs = [log.get(TopicPartition(topic.name, number)) for number in range(partitions)]
    rounds = int(gigabytes * 1e9 / len(batch) / partitions)
    for number in range(rounds):
        for partition in logs:
            partition.append(batch)
            if number % 64 == 63 and (flush := partition.start_flush()) is not None:
                flush.run()
                partition.finish_flush(flush)
    log.close()
    return rounds * partitions * 900


def recovery(broker: BrokerUnderTest) -> Figures:
    """Seconds from spawning, after SIGKILL under load, to the first record acknowledged again."""
    broker.start()
    bench(broker.bootstrap, BenchOptions(records=100_000, latency_records=1))
    _until_acknowledged(broker.bootstrap, "first")
    broker.kill()
    figures = first_acknowledgement(broker)
    broker.kill()
    return {"recovery": figures["start"]}


def _until_acknowledged(bootstrap: str, topic: str) -> None:
    """One record, tried until it is acknowledged: the topic is made, and the broker is waited for."""
    deadline_s = time.perf_counter() + _GIVE_UP_S
    batch = build_batch([NewRecord(None, b"first", (), int(time.time() * 1000))])
    creation = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=())
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    while time.perf_counter() < deadline_s:
        try:
            with RawConnection(bootstrap) as connection:
                connection.request(CreateTopicsRequest(topics=[creation], timeout_ms=10_000), 5)
                while time.perf_counter() < deadline_s:
                    answer = connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 8)
                    if answer.responses[0].partition_responses[0].error_code == 0:
                        return
                    time.sleep(_RETRY_S)
        except OSError:
            time.sleep(_RETRY_S)
    raise RuntimeError(f"{bootstrap} acknowledged nothing within {_GIVE_UP_S} s")


def end_offset(bootstrap: str, topic: str) -> int:
    """The end of partition 0."""
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=_LATEST)])
    with RawConnection(bootstrap) as connection:
        answer = connection.request(ListOffsetsRequest(replica_id=-1, topics=[asked]), 2)
    return int(answer.topics[0].partitions[0].offset)


def synced_mb_s(directory: Path, megabytes: int = 300) -> float:
    """What the disk takes in writes of 1 MB with an fdatasync after each, in MB/s: the most that a synced log can."""
    block = bytes(1_000_000)
    with (directory / "synced-blocks").open("wb", buffering=0) as file:
        begin_s = time.perf_counter()
        for _ in range(megabytes):
            file.write(block)
            os.fdatasync(file.fileno())
        return megabytes / (time.perf_counter() - begin_s)


class RawConnection:
    """One request at a time over a plain socket: nothing that waits, retries or backs off on its own."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._correlation_id = 0

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(self, body: Any, version: int) -> Any:
        self._correlation_id += 1
        chunks = encode_request(body, version, correlation_id=self._correlation_id, client_id="bench")
        self._socket.sendall(b"".join(chunks))
        (length,) = struct.unpack(">i", self._read(4))
        return decode_response(self._read(length), body.__api_key__, version).body

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self._socket.recv(count - len(data))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return bytes(data)
