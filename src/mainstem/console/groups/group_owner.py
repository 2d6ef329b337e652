"""``owner_of``: what a group belongs to, by its name and by what it has committed. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstem.console.requests import path
from mainstem.model import is_load_group

SINK_PREFIX: Final = "mainstem-sink-"
WORKER_PREFIX: Final = "mainstem-worker-"
_SINKS_TOPIC: Final = "__mainstem_sinks"
_PARTS_MAX: Final = 100

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GroupOwner:
    """The owner of a group: a sentence, and the pages that it is about, by name.

    ``is_reader``: its offsets say what it reads next, so that they can be moved.
    """

    sentence: str
    links: tuple[tuple[str, str], ...] = ()
    is_reader: bool = True


def owner_of(group: Document, pipelines: Iterable[Document]) -> GroupOwner | None:
    """The owner of one of Mainstem's own groups; None for any other group."""
    name = str(group["group"])
    if is_load_group(name):
        return GroupOwner("It keeps how far a run of mainstem load is, so that the run can go on.", (), False)
    if name.startswith(SINK_PREFIX):
        return _owner_of_sink(group, pipelines)
    if name.startswith(WORKER_PREFIX):
        topic = name.removeprefix(WORKER_PREFIX)
        return GroupOwner("Its members are the workers that answer the requests in", (_topic(topic),))
    return None


def _owner_of_sink(group: Document, pipelines: Iterable[Document]) -> GroupOwner:
    written = written_topics(group["partitions"])
    if not written:
        return GroupOwner("It keeps which micro-batches a Spark query has written.", (), False)
    found = [each for each in pipelines if set(written) <= set(each.get("outputs", ()))]
    if not found:
        sentence = "It keeps which micro-batches a Spark query has written to"
        return GroupOwner(sentence, tuple(_topic(topic) for topic in written), False)
    links = tuple((str(each["name"]), path("console", "pipelines", each["name"])) for each in found)
    return GroupOwner("It keeps which micro-batches are written, for the pipeline", links, False)


def _topic(topic: str) -> tuple[str, str]:
    return topic, path("console", "topics", topic)


def written_topics(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The topics that a sink wrote to, by the document in its offsets' metadata; empty when that cannot be read."""
    parts = {each["partition"]: str(each.get("metadata") or "") for each in partitions if each["topic"] == _SINKS_TOPIC}
    try:
        count = int(parts[0].partition(":")[0].partition("/")[2])
        text = "".join(parts[number].partition(":")[2] for number in range(min(count, _PARTS_MAX)))
        return [str(topic) for topic in json.loads(text)["topics"]]
    except (KeyError, ValueError, TypeError, RecursionError):
        return []
