"""What is measured of one broker, once: a round. Each function returns figures by name."""

from __future__ import annotations

import socket
import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.brokers import BrokerUnderTest, cpu_s, resident_mb
from mainstem.client.bench import BenchOptions, bench
from mainstem.clock import SystemClock
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.writer import NewRecord, build_batch

Figures = dict[str, float]
_GIVE_UP_S = 90.0
_RETRY_S = 0.002
_LATEST = -1


def through_librdkafka(broker: BrokerUnderTest, record_bytes: int, records: int, latencies: int) -> Figures:
    """Rates of producing and consuming, latencies, and the broker's processor time for each record of a phase."""
    marks: list[tuple[str, float]] = []
    options = BenchOptions(records=records, record_bytes=record_bytes, latency_records=latencies, timeout_s=60)
    result = bench(broker.bootstrap, options, lambda phase: marks.append((phase, cpu_s(broker.pid))))
    marks.append(("end", cpu_s(broker.pid)))
    used_s = {phase: after - before for (phase, before), (_, after) in pairwise(marks)}
    return {
        "produce": result.produce.records_per_second,
        "consume": result.consume.records_per_second,
        "p50": result.latency.p50_ms,
        "p99": result.latency.p99_ms,
        "produce CPU": used_s["produce"] / result.produce.records * 1e6,
        "consume CPU": used_s["consume"] / result.consume.records * 1e6,
    }


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
