"""Where the microseconds of one small request go: ``python -m benchmarks.anatomy``.

Each step is done alone and many times over, in processor time, so that what else the machine does matters little; the
whole request is what the log process itself used for each of many sent one after another over a socket.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.brokers import Mainstem, cpu_s
from benchmarks.measures import RawConnection, first_acknowledgement
from mainstem.broker.apis import APIS
from mainstem.broker.call import Call
from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.server import Broker
from mainstem.log.partition.batch_validation import check_batches
from mainstem.protocol.codec import decode_request, encode_request, encode_response
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.writer import NewRecord, build_batch

ROUNDS = 3_000
TOPIC = "first"
_PRODUCE_VERSION = 8
_FETCH_VERSION = 11


def produce_request() -> ProduceRequest:
    """One record of 1 kB."""
    batch = build_batch([NewRecord(None, bytes(1_000), (), int(time.time() * 1000))])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def fetch_request(offset: int = 0, max_bytes: int = 1_000) -> FetchRequest:
    """One batch of one partition, as librdkafka asks: without a session."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )


def microseconds(step: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Processor time of one call: the least of five runs."""
    runs = []
    for _ in range(5):
        begin_s = time.process_time()
        for _ in range(rounds):
            step()
        runs.append((time.process_time() - begin_s) / rounds * 1e6)
    return min(runs)


async def steps(directory: Path) -> list[tuple[str, float]]:
    """Each step alone, inside a broker that runs in this process."""
    broker = Broker(BrokerConfig(directory, port=0, settings={}))
    await broker.start()
    try:
        broker.node.topics.create(TOPIC, 1, {})
        log = broker.node.topics.partition(TOPIC, 0)
        produce, fetch = produce_request(), fetch_request()
        batch = memoryview(bytes(produce.topic_data[0].partition_data[0].records))
        log.append(bytes(batch))
        log.flush()
        frames = {
            "Produce": b"".join(encode_request(produce, _PRODUCE_VERSION, correlation_id=1, client_id="c"))[4:],
            "Fetch": b"".join(encode_request(fetch, _FETCH_VERSION, correlation_id=1, client_id="c"))[4:],
        }
        found = [
            (f"{name}: decode the request", microseconds(lambda f=f: decode_request(f))) for name, f in frames.items()
        ]
        found.append(
            (
                "Produce: check header and checksum",
                microseconds(lambda: check_batches(batch, log.config)),
            )
        )
        found.append(("Produce: append, the checks and pwritev included", microseconds(lambda: log.append(batch))))
        log.flush()
        found.append(("Fetch: read from the log", microseconds(lambda: log.read(0, 1_000, minimum_one=True))))
        call = _call(frames["Fetch"])
        handle = APIS[call.api_key].handle
        answer: Any = handle(broker.node, call)
        found.append(("Fetch: handle, the read included", microseconds(lambda: handle(broker.node, call))))
        found.append(("Fetch: encode the answer", microseconds(lambda: encode_response(call, answer))))
    finally:
        await broker.stop()
    return found


def _call(frame: bytes) -> Call:
    request = decode_request(frame)
    return Call(
        request.api_key, request.api_version, request.correlation_id, request.client_id, "/127.0.0.1", request.body
    )


def whole(directory: Path) -> list[tuple[str, float]]:
    """The log process's own processor time for each request of one connection, system calls included."""
    broker = Mainstem(directory)
    first_acknowledgement(broker)
    try:
        produce, fetch = produce_request(), fetch_request()
        found = []
        with RawConnection(broker.bootstrap) as connection:
            for name, request, version in (("Produce", produce, _PRODUCE_VERSION), ("Fetch", fetch, _FETCH_VERSION)):
                for _ in range(ROUNDS):
                    connection.request(request, version)
                before_s = cpu_s(broker.pid)
                for _ in range(2 * ROUNDS):
                    connection.request(request, version)
                used_s = cpu_s(broker.pid) - before_s
                found.append((f"{name}: the whole request, in the log process", used_s / (2 * ROUNDS) * 1e6))
    finally:
        broker.stop()
    return found


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as root:
        found = asyncio.run(steps(Path(root) / "steps")) + whole(Path(root) / "whole")
    for name, us in found:
        sys.stdout.write(f"| {name} | {us:.1f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
