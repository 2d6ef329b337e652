"""Differences that are known and not mended yet: each row goes with its mend. Nothing here is by intention."""

from __future__ import annotations

from typing import Final

from mainstem.broker.differences import ANY, DeliberateDifference

_PRODUCE: Final = "what Produce refuses, and what its refusals say"
_EPOCHS: Final = "the epoch after InitProducerId over an open transaction, and what it refuses"

OPEN: Final = (
    DeliberateDifference("produce", r"(log_start_offset|record_errors)", ANY, ANY, _PRODUCE),
    DeliberateDifference("produce", r"(error_code|base_offset|log_append_time_ms)", ANY, ANY, _PRODUCE, parts=True),
    DeliberateDifference("produce", r"^responses", ANY, ANY, _PRODUCE),
    DeliberateDifference("init_producer_id", r"(producer_epoch|error_code)", ANY, ANY, _EPOCHS, parts=True),
)
