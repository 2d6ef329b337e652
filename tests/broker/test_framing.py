from __future__ import annotations

import random
import struct

import pytest

from mainstem.broker.network.framing import SCRATCH_BYTES, FrameReceiver
from mainstem.broker.network.request_memory import HeldMemory, RequestMemory
from mainstem.errors import FrameError


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(receiver: FrameReceiver, data: bytes) -> list[bytes]:
    """All of ``data`` through the receiver, as a socket would, and the frames that come out."""
    frames = []
    while data:
        space = receiver.writable()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        receiver.wrote(count)
        data = data[count:]
        while (frame := receiver.next_frame()) is not None:
            frames.append(bytes(frame))
        receiver.release_buffer()
    return frames


def receiver(frame_bytes_max: int = 10_000_000, memory_bytes: int = 1 << 30) -> FrameReceiver:
    return FrameReceiver(frame_bytes_max, held(memory_bytes), memoryview(bytearray(SCRATCH_BYTES)))


def held(memory_bytes: int) -> HeldMemory:
    return RequestMemory(memory_bytes).hold("someone", lambda: None)


def test_frames_that_come_together_are_taken_apart() -> None:
    assert feed(receiver(), framed(b"one", b"", b"three")) == [b"one", b"", b"three"]


@pytest.mark.parametrize("step", [1, 3, 1000, SCRATCH_BYTES - 1, SCRATCH_BYTES + 1])
def test_frames_come_out_whole_however_the_bytes_are_cut(step: int) -> None:
    rng = random.Random(step)
    sizes = [0, 1, 100, 3000, 7] if step < 1000 else [SCRATCH_BYTES - 5, SCRATCH_BYTES, 5, 3_000_000, 7]
    payloads = [rng.randbytes(size) for size in sizes]
    data, subject, frames = framed(*payloads), receiver(), []
    for start in range(0, len(data), step):
        frames += feed(subject, data[start : start + step])
    assert frames == payloads
    assert not subject.is_inside_frame


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_length_that_no_request_has_is_refused(length: int) -> None:
    with pytest.raises(FrameError):
        feed(receiver(frame_bytes_max=1000), struct.pack(">i", length))


def test_a_large_length_alone_takes_no_memory() -> None:
    subject = receiver(frame_bytes_max=2**31 - 1)
    assert feed(subject, struct.pack(">i", 2**31 - 1) + b"x") == []
    assert len(subject.writable()) < 2_000_000


def test_a_request_waits_while_the_memory_is_taken_and_goes_on_when_it_is_given_back() -> None:
    memory = RequestMemory(100)
    woken: list[bool] = []
    other = memory.hold("someone", lambda: None)
    assert other.try_take(150)
    subject = FrameReceiver(10_000, memory.hold("someone", lambda: woken.append(True)), memoryview(bytearray(1000)))
    assert feed(subject, framed(b"b")) == []
    assert subject.is_blocked
    other.give_back(150)
    assert woken == [True]
    assert subject.next_frame() == b"b"


def test_receivers_share_a_scratch_buffer_without_mixing_their_bytes() -> None:
    scratch = memoryview(bytearray(100))
    first, second = (FrameReceiver(10_000, held(1 << 20), scratch) for _ in range(2))
    wanted = framed(b"first" * 20), framed(b"other" * 20)
    frames: tuple[list[bytes], list[bytes]] = ([], [])
    for start in range(0, 104, 3):
        frames[0].extend(feed(first, wanted[0][start : start + 3]))
        frames[1].extend(feed(second, wanted[1][start : start + 3]))
    assert frames == ([b"first" * 20], [b"other" * 20])


def test_a_coming_frame_counts_with_what_it_holds_and_gives_it_back() -> None:
    memory = RequestMemory(1_000_000)
    account = memory.hold("someone", lambda: None)
    subject = FrameReceiver(1_000_000, account, memoryview(bytearray(1000)))
    feed(subject, struct.pack(">i", 500_000) + b"x")
    assert 0 < memory.coming_bytes < 10_000
    assert memory.used_bytes == 0
    account.close()
    assert memory.coming_bytes == 0
