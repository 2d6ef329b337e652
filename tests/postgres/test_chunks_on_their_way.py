"""The chunks between the replication stream and the capture: a bound in bytes, and the error last."""

from __future__ import annotations

import threading

from mainstem.errors import MachineError
from mainstem.postgres.server.replication import _Chunks


def test_a_chunk_over_the_bound_waits_for_room() -> None:
    chunks = _Chunks(100)
    assert chunks.put([b"a"], 60, 0)
    assert not chunks.put([b"b"], 60, 0)
    assert chunks.put([b"b"], 40, 0)
    assert [chunks.take(0), chunks.take(0), chunks.take(0)] == [[b"a"], [b"b"], ()]
    assert chunks.is_empty


def test_a_chunk_that_is_larger_than_the_bound_goes_alone() -> None:
    chunks = _Chunks(100)
    assert chunks.put([b"a"], 1, 0)
    assert not chunks.put([b"large"], 1000, 0)
    chunks.take(0)
    assert chunks.put([b"large"], 1000, 0)
    assert not chunks.put([b"c"], 1, 0)


def test_who_waits_for_room_goes_on_when_one_is_taken() -> None:
    chunks = _Chunks(100)
    chunks.put([b"a"], 100, 0)
    done = threading.Event()
    threading.Thread(target=lambda: chunks.put([b"b"], 100, 60) and done.set(), daemon=True).start()
    assert not done.is_set()
    assert chunks.take(0) == [b"a"]
    assert done.wait(60)
    assert chunks.take(0) == [b"b"]


def test_an_error_comes_behind_all_chunks_and_stays() -> None:
    chunks, error = _Chunks(100), MachineError("lost")
    chunks.put([b"a"], 10, 0)
    chunks.end(error)
    assert [chunks.take(0), chunks.take(0), chunks.take(60)] == [[b"a"], error, error]
