"""What the fuzzer sends is small, whatever was repeated inside of what."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from mainstem.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tests.hostile import mutations

TIMES = 3_000
ROOM_BYTES = 8 << 20


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
