"""Clients that ask for much and read nothing: what waits for them is bounded, and they are closed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.broker.harness import LogProcess, fetch_request, produce_request
from tests.hostile.support import Raw, address_of, create_topic, frame, metric, resident_bytes
from tests.support.eventually import eventually

MB = 1 << 20
READERS = 40


def filled(log: LogProcess, megabytes: int) -> None:
    create_topic(log, "t")
    with Raw(address_of(log)) as client:
        for _ in range(megabytes):
            answer = client.request(produce_request("t", bytes(MB - 1_000)), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0


def test_readers_that_do_not_read_are_closed_and_others_are_served(tmp_path: Path) -> None:
    with (
        LogProcess(tmp_path / "data", mainstem_queued_max_response_bytes=str(32 * MB)) as log,
        ExitStack() as stack,
    ):
        filled(log, 12)
        fetch = frame(fetch_request("t", 0, max_bytes=12 * MB, partition_max_bytes=12 * MB), 11)
        with Raw(address_of(log)) as good:
            good.ping()
            before = resident_bytes(log.pid)
            idle = []
            for _ in range(READERS):
                reader = stack.enter_context(Raw(address_of(log), receive_buffer_bytes=4096))
                reader.send(fetch)
                idle.append(reader)
                good.ping()
            closed_or_answered(idle, READERS - 8)
            good.ping()
            assert resident_bytes(log.pid) < before + 150 * MB


def closed_or_answered(readers: list[Raw], count: int) -> None:
    """Wait until so many connections have ended: what was in the socket is read, then comes the end."""
    ended = 0
    for reader in readers:
        reader.socket.settimeout(10)
        if ended >= count:
            return
        if not has_whole_answer(reader):
            ended += 1
    assert ended >= count


def has_whole_answer(reader: Raw) -> bool:
    try:
        reader.receive_frame()
    except ConnectionError:
        return False
    return True


def test_a_reader_that_reads_nothing_is_closed_after_the_idle_time(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data", connections_max_idle_ms="1000") as log:
        filled(log, 12)
        fetch = frame(fetch_request("t", 0, max_bytes=12 * MB, partition_max_bytes=12 * MB), 11)
        with Raw(address_of(log), receive_buffer_bytes=4096) as reader:
            reader.send(fetch + fetch)
            eventually(lambda: metric(log, "mainstem_readers_closed_total") == 1, "the reader is closed")
