"""The progress record goes through its bytes unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mainstem.errors import SchemaError
from mainstem.model import Position, Record
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress

PROGRESS = Progress(
    pipeline="carrier-delays",
    batch_id=7,
    source=Position.parse("flights/0:17,flights/3:9"),
    sink=Position.parse("carrier-delays/0:4"),
    tables=Position.parse("airlines/0:16"),
    inputs=("flights",),
    outputs=("carrier-delays",),
)


def _record(key: bytes | None, value: bytes | None) -> Record:
    return Record(PROGRESS_TOPIC, 0, 0, 0, key, value)


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_progress_is_read_back_as_it_was(rebuilt: bool) -> None:
    progress = replace(PROGRESS, rebuilt=rebuilt)
    assert Progress.from_record(_record(*progress.to_record())) == progress


def test_the_key_is_the_name_of_the_pipeline() -> None:
    assert PROGRESS.to_record()[0] == b"carrier-delays"


def test_a_tombstone_is_no_progress() -> None:
    assert Progress.from_record(_record(b"carrier-delays", None)) is None


@pytest.mark.parametrize(
    "value", [b"", b"7", b"{}", b'{"batch_id":"x"}', b'{"batch_id":1e999}', b"\xff", b"[" * 99_999]
)
def test_a_foreign_record_is_refused(value: bytes) -> None:
    with pytest.raises(SchemaError, match="is not a progress record"):
        Progress.from_record(_record(b"p", value))
