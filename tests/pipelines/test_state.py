"""The state record: there and back, and when a driver counts as lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mainstem.errors import SchemaError
from mainstem.model import Record
from mainstem.pipelines.state import LOST_AFTER_MS, STATES_TOPIC, PipelineState, Status
from tests.pipelines.states import STATE


def record(value: bytes | None) -> Record:
    return Record(STATES_TOPIC, 0, 9, 0, b"totals", value)


def test_a_state_is_read_as_it_was_written() -> None:
    key, value = STATE.to_record()
    assert (key, PipelineState.from_record(record(value))) == (b"totals", STATE)


def test_a_tombstone_is_no_state() -> None:
    assert PipelineState.from_record(record(None)) is None


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", STATE.to_record()[1].replace(b"restarting", b"dancing")])
def test_another_record_is_refused_with_its_place(value: bytes) -> None:
    with pytest.raises(SchemaError, match=rf"{STATES_TOPIC}/0:9 is not a pipeline's state"):
        PipelineState.from_record(record(value))


def test_a_driver_that_falls_silent_is_lost_unless_its_query_was_over() -> None:
    late = STATE.seen_ms + LOST_AFTER_MS + 1
    assert [STATE.is_lost(late - 1), STATE.is_lost(late)] == [False, True]
    assert not any(replace(STATE, status=status).is_lost(late) for status in Status if status.is_over)
