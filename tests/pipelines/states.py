"""A pipeline's state in which every field says something."""

from __future__ import annotations

from mainstem.pipelines.state import Counts, Failure, MicroBatch, PipelineState, Status

STATE = PipelineState(
    pipeline="totals",
    app="shop",
    status=Status.RESTARTING,
    trigger="once",
    started_ms=1_000,
    seen_ms=5_000,
    counts=Counts(3, 40, 20, 1, 7),
    nulled_values={"orders": {"amount": 3}},
    input_rows_per_second=12.5,
    watermark="2026-01-01T00:00:00.000Z",
    failure=Failure("ValueError: no", 4_000, 6_000),
    recent=(MicroBatch(2, 4_500, 11, {"addBatch": 30, "triggerExecution": 44}, 5),),
)
