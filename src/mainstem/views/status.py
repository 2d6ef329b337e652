"""The state of a view, as a frozen value that commands, the gateway and the console show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mainstem.model import Position

# How a view was verified: by a replay of its topic, or by the account that its store keeps of its own writes.
Method: TypeAlias = Literal["replay", "account"]
# Where a rebuild may take its records from: the whole log, or what retention has left of it.
RebuildFrom: TypeAlias = Literal["log", "left", "lake", "snapshot"]
State: TypeAlias = Literal["starting", "waiting", "catching up", "live", "log unavailable", "stopped", "deleted"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry in which a view and the replay of its topic differ; None where it is in only one of them."""

    key: str
    expected: dict[str, Any] | None
    actual: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {"key": self.key, "expected": self.expected, "actual": self.actual}


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The result of a verification: ``records`` were replayed, ``entries`` compared, up to ``position``.

    By the ``method`` "account" nothing was replayed; ``entries`` is 0 where the account is not a digest.
    ``compared_from`` is set where the log has removed older records: only what came after could be compared.
    ``differences`` holds the first few, in the order of their keys.
    ``checkpoints``: by ``TOPIC/PARTITION``, the signed checkpoint that covers ``position``, of a verifiable topic.
    """

    view: str
    equal: bool
    records: int
    entries: int
    position: Position
    compared_from: Position | None
    differences: tuple[Difference, ...]
    seconds: float
    time_ms: int
    method: Method = "replay"
    checkpoints: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "view": self.view,
            "equal": self.equal,
            "records": self.records,
            "entries": self.entries,
            "position": str(self.position),
            "compared_from": None if self.compared_from is None else str(self.compared_from),
            "differences": [difference.to_json() for difference in self.differences],
            "seconds": round(self.seconds, 3),
            "time_ms": self.time_ms,
            "method": self.method,
            "checkpoints": dict(self.checkpoints),
        }


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of the background verification: up to ``position`` at ``time_ms``, of a ``share`` of all keys.

    ``records`` were replayed in the last round. ``compared_from`` is as in VerifyResult.
    """

    position: Position
    time_ms: int
    share: float
    equal: bool
    records: int
    compared_from: Position | None
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "position": str(self.position),
            "time_ms": self.time_ms,
            "share": round(self.share, 4),
            "equal": self.equal,
            "records": self.records,
            "compared_from": None if self.compared_from is None else str(self.compared_from),
            "differences": [difference.to_json() for difference in self.differences],
        }


@dataclass(frozen=True, slots=True)
class BuiltFrom:
    """Where the records of a version came from, and where they began: later than 0 where the log had removed older."""

    source: str
    beginning: Position

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {"source": self.source, "beginning": str(self.beginning)}


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """The result of a rebuild: the records that it applied, and the position at which the new version took over."""

    view: str
    records: int
    position: Position
    seconds: float
    built_from: BuiltFrom

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "view": self.view,
            "records": self.records,
            "position": str(self.position),
            "seconds": round(self.seconds, 3),
            "built_from": self.built_from.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Applied:
    """Whether a view, now at ``position``, has applied what was asked, and by when, by the host's clock.

    ``is_before``: it was some time before ``time_ms``, which is as far back as the host remembers. ``time_ms`` is None
    while it is not applied.
    """

    view: str
    position: Position
    is_applied: bool
    time_ms: int | None
    is_before: bool

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "view": self.view,
            "position": str(self.position),
            "applied": self.is_applied,
            "time_ms": self.time_ms,
            "before": self.is_before,
        }


@dataclass(frozen=True, slots=True)
class Waited:
    """How many of the newest reads waited for a view to cover a record, and how many of them still do.

    ``readers``: the names of their tokens, the last first, where tokens are asked for.
    """

    view: str
    reads: int
    waiting: int
    longest_ms: int
    readers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "view": self.view,
            "reads": self.reads,
            "waiting": self.waiting,
            "longest_ms": self.longest_ms,
            "readers": list(self.readers),
        }


@dataclass(frozen=True, slots=True)
class PastMoment:
    """A moment of a view's past: when its store was begun, or a snapshot of it was made, by the host's clock."""

    what: Literal["built", "snapshot"]
    position: Position
    time_ms: int

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {"what": self.what, "position": str(self.position), "time_ms": self.time_ms}


@dataclass(frozen=True, slots=True)
class ViewPast:
    """How far back a view answers: from the log's beginning if ``is_whole``, else from its oldest snapshot at best.

    Compaction may have removed what a state before a snapshot needs; a query of such a state says so.
    """

    beginning: Position
    is_whole: bool
    moments: tuple[PastMoment, ...]

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "beginning": str(self.beginning),
            "whole": self.is_whole,
            "moments": [moment.to_json() for moment in self.moments],
        }


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """``detail`` says what the state means here: what is waited for, why it stopped. ``lag`` counts offsets.

    ``drifted``: a verification found rows that differ from the log, and the view was not rebuilt since.
    ``built_from`` is None while the view is not open. ``sampled``: what the verification in the background found.
    ``location``: the directory of a lake's files, on the machine of the view host. ``table``: the table of a sink, and
    its database. ``damaged_offsets``: how many could not be read and were skipped. ``applies`` and ``apply_s``: how
    many batches were applied since the view was opened, and the seconds that took.
    """

    name: str
    app: str
    kind: str
    topic: str
    state: State
    detail: str
    position: Position
    covers: Position
    lag: int
    dead_letters: int
    dead_letter_topic: str
    is_rebuilding: bool
    verified: VerifyResult | None
    drifted: bool
    built_from: BuiltFrom | None
    location: str | None = None
    sampled: Sampled | None = None
    damaged_offsets: int = 0
    table: str | None = None
    applies: int = 0
    apply_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "name": self.name,
            "app": self.app,
            "kind": self.kind,
            "topic": self.topic,
            "state": self.state,
            "detail": self.detail,
            "position": str(self.position),
            "covers": str(self.covers),
            "lag": self.lag,
            "dead_letters": self.dead_letters,
            "dead_letter_topic": self.dead_letter_topic,
            "damaged_offsets": self.damaged_offsets,
            "is_rebuilding": self.is_rebuilding,
            "verified": None if self.verified is None else self.verified.to_json(),
            "drifted": self.drifted,
            "built_from": None if self.built_from is None else self.built_from.to_json(),
            "location": self.location,
            "table": self.table,
            "applies": self.applies,
            "apply_s": round(self.apply_s, 6),
            "sampled": None if self.sampled is None else self.sampled.to_json(),
        }
