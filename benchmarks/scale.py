"""How the costs of Mainstem grow: ``python -m benchmarks.scale [--only partitions,connections]``.

Each part takes one size after the other, ten times as large each time, and prints a row with its figures and how much
the last one grew against the row before. *partitions*: a node with so many, with one record in each; its start until it
acknowledges, its memory, the answer to a request for all metadata. *connections*: so many that are open and idle; the
log's memory, and the time of one durable append beside them. *records*: a log with so many, of 1 kB, that was killed;
its start. *keys*: a key-value view of so many keys; its rate, its size, a read. *views*: so many SQL views of one topic
in one host; how many records it applies a second, all views together. *writers*: so many that append one record at a
time; all their records a second. Exit code 0.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks import measures
from benchmarks.brokers import Mainstem, resident_mb
from benchmarks.report import load_line, machine_load
from mainstem.client.log import Log
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import SQL, KeyValue
from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.writer import NewRecord, build_batch
from mainstem.views.host.host import ViewHost
from mainstem.views.requests import GetQuery

Row = dict[str, float]
_WAIT_S = 600.0
_PARTITIONS_A_TOPIC = 100
_READS = 300
_WRITERS_S = 4.0
_RECORD_BYTES = 1_000
_FILES_SPARE = 200


def partitions(root: Path, count: int) -> Row:
    """A node with so many partitions."""
    broker = Mainstem(root)
    broker.start()
    try:
        with Log(broker.bootstrap, timeout_s=60) as log:
            for number in range(0, count, _PARTITIONS_A_TOPIC):
                topic, size = f"topic-{number}", min(_PARTITIONS_A_TOPIC, count - number)
                log.create_topic(topic, partitions=size)
                log.append_many(topic, [(str(key), b"x") for key in range(4 * size)])
        broker.kill()
        start_s = measures.first_acknowledgement(broker)["start"]
        with measures.RawConnection(broker.bootstrap) as connection:
            metadata_ms = _median_ms(lambda: connection.request(MetadataRequest(topics=None), 8), 20)
        return {
            "start after SIGKILL, s": start_s,
            "memory, MB": resident_mb(broker.pid),
            "all metadata, ms": metadata_ms,
        }
    finally:
        broker.stop()


def connections(root: Path, count: int) -> Row:
    """So many connections that do nothing, and one that appends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if count + _FILES_SPARE > hard:
        raise RuntimeError(f"{count} connections need more files than this process may open ({hard})")
    broker = Mainstem(root)
    broker.start()
    idle: list[socket.socket] = []
    try:
        before_mb = resident_mb(broker.pid)
        idle += (socket.create_connection(("127.0.0.1", broker.port), timeout=30) for _ in range(count))
        with Log(broker.bootstrap, timeout_s=60) as log, measures.RawConnection(broker.bootstrap) as connection:
            log.create_topic("beside")
            request = _produce("beside")
            append_ms = _median_ms(lambda: connection.request(request, 8), _READS)
        kb = (resident_mb(broker.pid) - before_mb) * 1e3 / count
        return {"memory, kB each": kb, "a durable append beside them, ms": append_ms}
    finally:
        for each in idle:
            each.close()
        broker.stop()


def records(root: Path, count: int) -> Row:
    """A log with so many records of 1 kB that was killed."""
    broker = Mainstem(root)
    measures.fill(root / "data", count * _RECORD_BYTES / 1e9)
    try:
        start_s = measures.recovery(broker)["recovery"]
    finally:
        broker.stop()
    return {"start after SIGKILL, s": start_s}


def keys(root: Path, count: int) -> Row:
    """A key-value view of so many keys, each with one row."""
    app = App("scale")
    app.view("rows", app.topic("rows", "id BIGINT, name STRING, price DOUBLE", partitions=4), KeyValue())
    broker = Mainstem(root / "log")
    broker.start()
    try:
        with Log(broker.bootstrap, timeout_s=60) as log:
            deploy(app, log)
            rows = ({"id": n, "name": f"name {n}", "price": n / 7} for n in range(count))
            end = log.append_many("rows", ((str(row["id"]), row) for row in rows))
        begin_s = time.perf_counter()
        with ViewHost(tuple(app.views.values()), broker.bootstrap, root / "views") as host:
            host.wait("rows", lambda status: status.position.covers(end), _WAIT_S)
            rate = count / (time.perf_counter() - begin_s)
            wanted = iter(range(0, count * _READS, max(1, count // 7)))
            read_ms = _median_ms(lambda: host.query("rows", GetQuery(str(next(wanted) % count))), _READS)
        size = sum(file.stat().st_size for file in (root / "views").rglob("*") if file.is_file()) / count
        return {"records/s": rate, "disk, bytes a key": size, "one read, ms": read_ms}
    finally:
        broker.stop()


def views(root: Path, count: int) -> Row:
    """So many SQL views of one topic of 200,000 records."""
    size = 200_000
    app = App("scale")
    rows = app.topic("rows", "id BIGINT, name STRING, price DOUBLE", partitions=4)
    for number in range(count):
        app.view(f"view{number}", rows, SQL())
    broker = Mainstem(root / "log")
    broker.start()
    try:
        with Log(broker.bootstrap, timeout_s=60) as log:
            deploy(app, log)
            end = log.append_many("rows", ((str(n), {"id": n, "name": f"{n}", "price": n / 7}) for n in range(size)))
        begin_s = time.perf_counter()
        with ViewHost(tuple(app.views.values()), broker.bootstrap, root / "views") as host:
            for name in app.views:
                host.wait(name, lambda status: status.position.covers(end), _WAIT_S)
            return {"records/s, all views": count * size / (time.perf_counter() - begin_s)}
    finally:
        broker.stop()


def writers(root: Path, count: int) -> Row:
    """So many connections that append a record of 1 kB, each when the one before is durable, to four partitions."""
    broker = Mainstem(root)
    broker.start()
    try:
        with Log(broker.bootstrap, timeout_s=60) as log:
            log.create_topic("written", partitions=4)
        begin_s = time.perf_counter()
        done = asyncio.run(_write(broker.port, count, begin_s + _WRITERS_S))
        return {"durable records/s": done / (time.perf_counter() - begin_s)}
    finally:
        broker.stop()


async def _write(port: int, count: int, until_s: float) -> int:
    async def one(number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = _produce("written", number % 4)
        frame = b"".join(encode_request(request, 8, correlation_id=1, client_id="scale"))
        done = 0
        while time.perf_counter() < until_s:
            writer.write(frame)
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            response = decode_response(answer, request.__api_key__, 8).body
            assert response.responses[0].partition_responses[0].error_code == 0
            done += 1
        writer.close()
        return done

    return sum(await asyncio.gather(*map(one, range(count))))


def _produce(topic: str, partition: int = 0) -> ProduceRequest:
    batch = build_batch([NewRecord(None, bytes(_RECORD_BYTES), (), int(time.time() * 1000))])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def _median_ms(call: Callable[[], object], count: int) -> float:
    taken_ms = []
    for _ in range(count):
        begin_s = time.perf_counter()
        call()
        taken_ms.append((time.perf_counter() - begin_s) * 1e3)
    return median(taken_ms)


PARTS: dict[str, tuple[Callable[[Path, int], Row], tuple[int, ...]]] = {
    "partitions": (partitions, (1, 10, 100, 1_000, 10_000)),
    "connections": (connections, (10, 100, 1_000, 9_000)),
    "records": (records, (10_000, 100_000, 1_000_000, 10_000_000)),
    "keys": (keys, (1_000, 10_000, 100_000, 1_000_000)),
    "views": (views, (1, 2, 4, 8)),
    "writers": (writers, (1, 10, 100, 1_000)),
}


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"--only takes {', '.join(PARTS)}; not {', '.join(sorted(unknown))}")
    sys.setswitchinterval(1e-4)
    sys.stdout.write(f"{load_line(machine_load())}\n")
    for part in parts:
        for line in _table(part, arguments):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


def _table(part: str, arguments: argparse.Namespace) -> Iterator[str]:
    measure, sizes = PARTS[part]
    before: Row = {}
    for size in sizes:
        if size > arguments.most:
            return
        with tempfile.TemporaryDirectory(prefix="mainstem-bench-", dir=arguments.directory) as root:
            row = measure(Path(root) / "scale", size)
        if not before:
            yield f"\n| {part} | {' | '.join(row)} |\n|---|{'---|' * len(row)}"
        cells = [f"{value:.3g}" + (f" (× {value / before[name]:.2g})" if before else "") for name, value in row.items()]
        yield f"| {size:,} | {' | '.join(cells)} |"
        before = row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="How the costs of Mainstem grow.")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}, separated by commas")
    parser.add_argument("--most", type=int, default=max(max(sizes) for _, sizes in PARTS.values()), help="of a size")
    parser.add_argument("--directory", help="where the data is; a new directory in it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
