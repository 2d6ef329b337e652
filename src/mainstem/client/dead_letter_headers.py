"""The headers of a dead letter: a record that a pipeline or a view could not use, appended to a topic of its own.

One format for the Spark source, the pipelines' outputs and the views. A dead letter has its record's key and value as
far as they fit, and these headers after the record's own. Pure functions.
"""

from __future__ import annotations

from mainstem.model import Headers, TopicPartition


def dead_letter_headers(error: str, topic: str, **more: str) -> Headers:
    """The error, the record's topic, and ``more`` headers by name, without their prefix."""
    return tuple((f"mainstem.{name}", text.encode()) for name, text in {"error": error, "topic": topic, **more}.items())


def dead_letter_of(error: str, source: TopicPartition, offset: int, **more: str) -> Headers:
    """The headers for the record that lies at ``offset`` of ``source``."""
    return dead_letter_headers(error, source.topic, partition=str(source.partition), offset=str(offset), **more)
