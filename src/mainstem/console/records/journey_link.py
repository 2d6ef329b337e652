"""The address of the page with a record's journey. Pure."""

from __future__ import annotations

from mainstem.console.requests import path
from mainstem.model import TopicPartition


def journey_address(tp: TopicPartition, offset: int) -> str:
    """The page of the record at an offset."""
    return path("console", "topics", tp.topic, "records", str(tp.partition), str(offset))
