"""What the fuzzer sends is small, whatever was repeated inside of what."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from mainstem.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from mainstem.protocol.messages.fetch import FetchRequest, ReplicaState
from tests.hostile import mutations

TIMES = 3_000
ROOM_BYTES = 8 << 20


def test_damage_makes_no_request_that_has_no_answer() -> None:
    no_acks = b"\x00\x00\x00\r\x00\x00\x00\x01\x00\x04fuzz\x00\x02-\x00\x00\x10\x00\x00\xef\x01\x00"
    assert mutations._asks_for_no_answer(struct.pack(">i", len(no_acks)) + no_acks)
    assert not mutations._asks_for_no_answer(struct.pack(">i", 14) + no_acks[:14])
    assert not mutations._asks_for_no_answer(
        struct.pack(">i", len(no_acks)) + no_acks.replace(b"-\x00\x00", b"-\x00\x01")
    )


def test_changes_of_a_request_leave_the_defaults_that_all_requests_share() -> None:
    for seed in range(300):
        mutations.mutated_frame(FetchRequest.__api_key__, 18, random.Random(seed))
    assert FetchRequest.of_defaults().replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)


def test_repeats_of_repeats_are_never_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    entity, op = RequestEntityData(entity_type="user", entity_name=None), OpData(key="k", value=1.0, remove=False)
    entries = [RequestEntryData(entity=[entity] * TIMES, ops=[op] * TIMES)] * TIMES
    large = AlterClientQuotasRequest(entries=entries, validate_only=True)
    small = AlterClientQuotasRequest(entries=[], validate_only=True)
    drawn, unchanged = iter((large, small)), lambda *_: None
    monkeypatch.setattr(mutations, "random_request", lambda *_: next(drawn))
    monkeypatch.setattr(mutations, "_change_struct", unchanged)
    tracemalloc.start()
    try:
        frame = mutations.mutated_frame(AlterClientQuotasRequest.__api_key__, 1, random.Random(1))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(frame) < 100_000
    assert list(drawn) == []
    assert peak_bytes < ROOM_BYTES
