"""Two logs, a mirror between them, and the comparison of what both hold, byte by byte."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.mirror.link import Link
from mainstem.mirror.mirror import Mirror, MirrorOptions
from mainstem.model import TopicPartition
from mainstem.record.header import BatchHeader, iter_headers
from tests.broker.harness import child_environment
from tests.support.eventually import eventually

TIMEOUT_S = 60
QUICK = MirrorOptions(topics_every_s=0, groups_every_s=0)


@contextmanager
def linked(source: str, target: str, topics: str = ".*") -> Iterator[Link]:
    with Link(WireClient(source), WireClient(target), topics) as link:
        yield link


def copy_all(source: str, target: str, topics: str = ".*") -> None:
    """Mirror until both are level."""
    with linked(source, target, topics) as link:
        mirror = Mirror(link, QUICK, lambda _: None)
        try:
            mirror.begin()

            def is_level() -> bool:
                mirror.round()
                return ends(source, topics_of(link)) == ends(target, topics_of(link))

            eventually(is_level, "both logs end alike", TIMEOUT_S)
            mirror.round()
        finally:
            mirror.close()


def topics_of(link: Link) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name, topic in link.source_topics().items() for number in topic.partitions]


def ends(bootstrap: str, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
    with WireClient(bootstrap) as client:
        known = client.metadata({tp.topic for tp in tps})
        there = [tp for tp in tps if tp.topic in known and tp.partition in known[tp.topic].partitions]
        return client.list_offsets(there, LATEST)


def batches(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[BatchHeader, bytes]]:
    """All batches with records, as the log sends them."""
    tp = TopicPartition(topic, partition)
    found: list[tuple[BatchHeader, bytes]] = []
    with WireClient(bootstrap) as client:
        offset, end = client.list_offsets([tp], EARLIEST)[tp], client.list_offsets([tp], LATEST)[tp]
        while offset < end:
            fetched = client.fetch({tp: offset}, max_wait_ms=0, read_committed=False)[tp]
            assert fetched.error is None, fetched.error
            data = bytes(fetched.records)
            before = offset
            for at, header in iter_headers(data):
                if header.record_count and header.last_offset >= offset:
                    found.append((header, data[at : at + header.size_bytes]))
                offset = header.next_offset
            if offset == before:
                break
    return found


def assert_same(source: str, target: str, topic: str, partitions: int = 1) -> int:
    """Batches, ends, starts and last stable offsets are equal; returns the number of batches."""
    count = 0
    for number in range(partitions):
        there, here = batches(source, topic, number), batches(target, topic, number)
        assert [each[0] for each in there] == [each[0] for each in here]
        assert there == here
        count += len(there)
        tp = TopicPartition(topic, number)
        with WireClient(source) as one, WireClient(target) as two:
            for at in (EARLIEST, LATEST):
                assert one.list_offsets([tp], at) == two.list_offsets([tp], at)
            for client in (one, two):
                client.metadata([topic])
            committed = [client.list_offsets([tp], LATEST, Isolation.READ_COMMITTED) for client in (one, two)]
            assert committed[0] == committed[1]
    return count


class MirrorProcess:
    """``mainstem mirror`` as a child."""

    def __init__(self, source: str, target: str, output: Path, *more: str) -> None:
        argv = [sys.executable, "-m", "mainstem.cli.main", "mirror", "--from", source, "--to", target, *more]
        self.output = output
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=child_environment()
            )

    def wait_ready(self) -> MirrorProcess:
        eventually(lambda: "ready: mirror" in self.text or self._process.poll() is not None, "the mirror is ready")
        assert self._process.poll() is None, self.text
        return self

    @property
    def text(self) -> str:
        return self.output.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        return self._process.wait(TIMEOUT_S)

    def wait(self) -> int:
        """Its exit code, when it ends by itself."""
        return self._process.wait(TIMEOUT_S)

    def __enter__(self) -> MirrorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
