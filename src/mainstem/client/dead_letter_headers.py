"""The headers of a dead letter: a record that a pipeline or a view could not use, appended to a topic of its own.

One format for the Spark source, the pipelines' outputs and the views. A dead letter has its record's key and value as
far as they fit, and these headers after the record's own. ``pipeline_topic`` and ``view_topic`` name the topics, and
``LetterOwner`` reads these names. Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mainstem.model import Headers, TopicPartition

PREFIX: Final = "mainstem."
"""How the names of these headers begin."""
_TOPICS: Final = {"pipeline": "__mainstem_dead_letters.", "view": "__mainstem_view_dead_letters."}


@dataclass(frozen=True, slots=True)
class LetterOwner:
    """The pipeline or view that a topic of dead letters belongs to. ``kind``: ``pipeline`` or ``view``."""

    kind: str
    app: str
    name: str

    @classmethod
    def of(cls, topic: str) -> LetterOwner | None:
        """Read the name of a topic; None if it is not one of dead letters."""
        for kind, prefix in _TOPICS.items():
            app, dot, name = topic.removeprefix(prefix).partition(".")
            if topic.startswith(prefix) and dot and app and name:
                return cls(kind, app, name)
        return None


def pipeline_topic(app: str, name: str) -> str:
    """The topic of a pipeline's dead letters."""
    return f"{_TOPICS['pipeline']}{app}.{name}"


def view_topic(app: str, name: str) -> str:
    """The topic of a view's dead letters; not that of a pipeline of the same name."""
    return f"{_TOPICS['view']}{app}.{name}"


def dead_letter_headers(error: str, topic: str, **more: str) -> Headers:
    """The error, the record's topic, and ``more`` headers by name, without their prefix."""
    return tuple((f"{PREFIX}{name}", text.encode()) for name, text in {"error": error, "topic": topic, **more}.items())


def dead_letter_of(error: str, source: TopicPartition, offset: int, **more: str) -> Headers:
    """The headers for the record that lies at ``offset`` of ``source``."""
    return dead_letter_headers(error, source.topic, partition=str(source.partition), offset=str(offset), **more)
