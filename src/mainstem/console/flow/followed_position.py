"""``FollowedPosition``: which pipelines, topics and views have reached a position, and after how long.

1. A pipeline has reached it when what it has read covers it. Its output topics have then, as far as its output says.
2. A view has reached it when it has applied the position of its topic.
3. Where a node had reached it before the first look, its time is not known.

Pure; used by one page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem.model import Position

Documents = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class FlowHop:
    """A node that has reached the position, ``ms`` after it was in the log; None where it had before."""

    node: str
    ms: int | None

    @property
    def name(self) -> str:
        """The name of the topic, pipeline or view."""
        return self.node.partition(":")[2]


class FollowedPosition:
    """One position on its way. ``began_s``: when it was in the log, by the clock of ``look``.

    ``is_new``: it came into the log just now, so that the first look, too, tells when it was reached.
    """

    def __init__(self, position: Position, began_s: float, *, is_new: bool = False) -> None:
        self._began_s = began_s
        self._wanted = {topic: position.restrict([topic]) for topic in sorted(position.topics)}
        self._looks = int(is_new)
        self.hops: dict[str, FlowHop] = {f"topic:{topic}": FlowHop(f"topic:{topic}", 0) for topic in self._wanted}
        """The nodes that have reached it, in the order in which they did."""
        self.waits_for: list[str] = []
        """The nodes that have not, but will."""

    def look(self, pipelines: Documents, views: Documents, now_s: float) -> None:
        """Take note of how far everything is now."""
        ms = max(0, round((now_s - self._began_s) * 1000)) if self._looks else None
        self._looks += 1
        while any(self._reach(pipeline, ms) for pipeline in pipelines):  # one may lead to the next
            pass
        for view in views:
            wanted = self._wanted.get(view["topic"])
            if wanted is not None and _parsed(view["position"]).covers(wanted):
                self._add(f"view:{view['name']}", ms)
        self.waits_for = [node for node in _behind(self._wanted, pipelines, views) if node not in self.hops]

    def _reach(self, pipeline: Mapping[str, Any], ms: int | None) -> bool:
        """Whether the pipeline has just reached it."""
        node = f"pipeline:{pipeline['name']}"
        read = [self._wanted[topic] for topic in pipeline["inputs"] if topic in self._wanted]
        if node in self.hops or not read:
            return False
        source = _parsed(pipeline["source"])
        if not all(source.covers(wanted) for wanted in read):
            return False
        self._add(node, ms)
        for topic in pipeline["outputs"]:
            self._wanted.setdefault(topic, _parsed(pipeline["sink"]).restrict([topic]))
            self._add(f"topic:{topic}", ms)
        return True

    def _add(self, node: str, ms: int | None) -> None:
        self.hops.setdefault(node, FlowHop(node, ms))


def as_text(hops: Iterable[FlowHop]) -> str:
    """The way so far in one line: ``flights 0 → enrich 420 → manufacturers 455 ms``."""
    words = [f"{hop.name} {'earlier' if hop.ms is None else hop.ms}" for hop in hops]
    return " → ".join(words) + ("" if words[-1].endswith("earlier") else " ms")


def _behind(wanted: Iterable[str], pipelines: Documents, views: Documents) -> list[str]:
    """The pipelines, topics and views behind some topics."""
    topics = set(wanted)
    found: dict[str, None] = {}
    for _ in range(len(pipelines) + 1):
        before = len(found)
        for pipeline in pipelines:
            if topics.intersection(pipeline["inputs"]):
                found[f"pipeline:{pipeline['name']}"] = None
                found.update({f"topic:{topic}": None for topic in pipeline["outputs"]})
                topics.update(pipeline["outputs"])
        if len(found) == before:
            break
    found.update({f"view:{view['name']}": None for view in views if view["topic"] in topics})
    return list(found)


def _parsed(position: str) -> Position:
    return Position.parse(position) if position else Position()
