"""Requests that are announced and do not come, or come byte by byte, from clients with and without a user."""

from __future__ import annotations

import os
import struct
import time
from contextlib import ExitStack
from pathlib import Path

from tests.broker.harness import LogProcess
from tests.hostile.support import Raw, address_of, closed_among, open_files, resident_bytes, trickling

MB = 1 << 20
STALL_S = 30.0
"""The default of ``mainstem.request.stall.ms``."""


def half_a_frame(announced_bytes: int, came: bytes = b"\x00") -> bytes:
    return struct.pack(">i", announced_bytes) + came


def test_three_announcements_of_100_mb_stop_nobody(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, ExitStack() as stack:
        slow = [stack.enter_context(Raw(address_of(log))) for _ in range(3)]
        for connection in slow:
            connection.send(half_a_frame(100_000_000, bytes(21)))
        with trickling(slow), Raw(address_of(log)) as good:
            for _ in range(100):
                good.ping()
        assert not any(has_ended(connection) for connection in slow), "they were there the whole time"


def test_announcements_without_bytes_take_no_part_of_the_memory(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, open_files(3_000), ExitStack() as stack:
        with Raw(address_of(log)) as good:
            good.ping()
            before = resident_bytes(log.pid)
            for _ in range(1_000):
                stack.enter_context(Raw(address_of(log))).send(half_a_frame(100_000_000))
                good.ping()
        assert resident_bytes(log.pid) < before + 40 * MB


def test_bytes_that_trickle_do_not_keep_a_request_open(tmp_path: Path) -> None:
    """Each byte comes long before the stall is over, and yet the connection ends: the rate counts."""
    with LogProcess(tmp_path / "data", mainstem_request_stall_ms="1500") as log, Raw(address_of(log)) as slow:
        slow.send(half_a_frame(100_000_000))
        slow.socket.settimeout(0.1)
        is_open = True
        for _ in range(600):
            try:
                slow.send(b"\x00")
                is_open = slow.socket.recv(1) != b""
            except TimeoutError:
                continue
            except ConnectionError:
                is_open = False
            if not is_open:
                break
        assert not is_open


def test_halves_of_requests_that_fill_the_memory_give_way_to_whole_ones(tmp_path: Path) -> None:
    settings = {"queued_max_request_bytes": str(4 * MB), "mainstem_request_stall_ms": "5000"}
    with LogProcess(tmp_path / "data", **settings) as log, ExitStack() as stack:
        slow = [stack.enter_context(Raw(address_of(log))) for _ in range(40)]
        for connection in slow:
            connection.socket.setblocking(False)
            try:
                connection.socket.send(half_a_frame(50_000_000, bytes(400_000)))
            except BlockingIOError:
                continue
        with Raw(address_of(log)) as good:
            for _ in range(100):
                good.ping()
        closed_among(slow, 1)


def test_large_requests_that_together_exceed_the_memory_are_all_served(tmp_path: Path) -> None:
    """Nine honest requests, each larger than the whole memory, come one after another and none is closed."""
    unknown_tag = b"\x01\x05" + b"\xff\xff\x7f" + bytes(2_097_151)
    body = struct.pack(">hhihB", 18, 3, 7, -1, 0) + b"\x02a\x02b" + unknown_tag
    with LogProcess(tmp_path / "data", queued_max_request_bytes=str(MB)) as log, ExitStack() as stack:
        clients = [stack.enter_context(Raw(address_of(log))) for _ in range(9)]
        data = struct.pack(">i", len(body)) + body
        at = [0] * len(clients)
        for connection in clients:
            connection.socket.setblocking(False)
        deadline_s = time.monotonic() + 60
        while any(each < len(data) for each in at):
            assert time.monotonic() < deadline_s, at
            for number, connection in enumerate(clients):
                try:
                    at[number] += connection.socket.send(data[at[number] : at[number] + 65_536])
                except BlockingIOError:
                    continue
        for connection in clients:
            connection.socket.settimeout(60)
            connection.receive(18, 3)


def test_clients_without_a_user_do_not_hold_up_those_of_another_listener(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, open_files(6_000), ExitStack() as stack:
        log.stop()
        log.start("--listen", f"{log.bootstrap},SASL_PLAINTEXT://127.0.0.1:0", "--log-level", "ERROR")
        sasl = address_of_second(log)
        slow = [stack.enter_context(Raw(sasl)) for _ in range(4_600)]
        for connection in slow:
            connection.send(half_a_frame(60_000))
        with trickling(slow), Raw(address_of(log)) as good:
            good.socket.settimeout(STALL_S / 2)  # an answer may not wait until the log gives up on the others
            for _ in range(3_000):  # so many that the log meanwhile takes what all the others send
                good.ping()
            with Raw(sasl) as user:
                user.ping()


def has_ended(connection: Raw) -> bool:
    """Whether the log has closed the connection by now; it has sent nothing."""
    try:
        return os.read(connection.socket.fileno(), 1) == b""  # a socket with a time-out does not block
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def address_of_second(log: LogProcess) -> tuple[str, int]:
    """Where the log's other listener is: it listens on two ports, of which one is known."""
    known = address_of(log)[1]
    inodes = set()
    for entry in Path(f"/proc/{log.pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.add(int(fields[1].rpartition(":")[2], 16))
    (other,) = ports - {known}
    return "127.0.0.1", other
