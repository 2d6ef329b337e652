"""The result of a verification, for people and for programs. Immutable values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from mainstem.model import Position
from mainstem.spark.verification.comparison_rules import ComparedKey, DifferenceKind, Rule
from mainstem.spark.verification.record_comparison import Compared

BEHIND_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class RowDifference:
    """``count`` records that differ: the batch's record, the topic's, and the place of that."""

    key: str | None
    expected: str | None
    actual: str | None
    at: str | None
    count: int

    @classmethod
    def of(cls, topic: str, key: bytes | None, judged: ComparedKey) -> RowDifference:
        at = None if judged.offset is None else f"{topic}/{judged.partition}:{judged.offset}"
        return cls(_text(key), _text(judged.expected), _text(judged.actual), at, judged.count)

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "expected": self.expected,
            "actual": self.actual,
            "at": self.at,
            "count": self.count,
        }


@dataclass(frozen=True, slots=True)
class TopicVerification:
    """One topic. ``expected`` and ``actual`` count what was compared: records, or keys, as ``rule`` says.

    ``behind`` counts the records after ``sink``, up to ``BEHIND_MAX``: those are not compared.
    """

    topic: str
    rule: Rule
    expected: int
    actual: int
    differing: int
    rounding: int
    held_back: int
    undecided: int
    not_judged: int
    behind: int
    differences: tuple[RowDifference, ...]

    @classmethod
    def of(cls, topic: str, rule: Rule, compared: Compared, behind: int) -> TopicVerification:
        counts = compared.counts
        return cls(
            topic=topic,
            rule=rule,
            expected=compared.expected,
            actual=compared.actual,
            differing=sum(count for finding, count in counts.items() if finding.is_difference),
            rounding=counts.get(DifferenceKind.ROUNDING, 0),
            held_back=counts.get(DifferenceKind.HELD_BACK, 0),
            undecided=counts.get(DifferenceKind.UNDECIDED, 0),
            not_judged=counts.get(DifferenceKind.NOT_JUDGED, 0),
            behind=behind,
            differences=tuple(RowDifference.of(topic, key, judged) for key, judged in compared.examples),
        )

    @property
    def is_contradicted(self) -> bool:
        return bool(self.differing)

    @property
    def is_equal(self) -> bool:
        return not self.differing and not self.undecided

    def __str__(self) -> str:
        word = "records" if self.rule is Rule.MULTISET else "keys"
        parts = [f"{self.topic}: {self.actual:,} {word}, {self.expected:,} by the batch"]
        if self.differing:
            parts.append(f"{self.differing:,} differ")
        if self.held_back:
            parts.append(f"{self.held_back:,} held back by the watermark")
        if self.undecided:
            parts.append(
                f"{self.undecided:,} are missing; it is unknown whether the watermark holds them back or they are lost"
            )
        if self.rounding:
            parts.append(f"{self.rounding:,} differ in the last digits of floating numbers only, which counts as equal")
        if self.not_judged:
            parts.append(f"{self.not_judged:,} not judged, because records were removed that they may depend on")
        if self.behind:
            more = " or more" if self.behind == BEHIND_MAX else ""
            parts.append(
                f"{self.behind:,}{more} not compared, because they come after the offsets that the pipeline reported: "
                "it is writing them now, or another writer wrote them"
            )
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "compared": str(self.rule),
            "expected": self.expected,
            "actual": self.actual,
            "differing": self.differing,
            "rounding": self.rounding,
            "held_back": self.held_back,
            "may_be_held_back": self.undecided,
            "not_judged": self.not_judged,
            "behind": self.behind,
            "differences": [difference.to_json() for difference in self.differences],
        }


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """A pipeline. ``begins``: the partitions of its inputs whose first records are gone, and where the rest begins."""

    pipeline: str
    source: Position
    sink: Position
    tables: Position
    begins: Position
    topics: tuple[TopicVerification, ...]
    caveats: tuple[str, ...]
    watermark_held_by: str | None = None

    @property
    def waits(self) -> bool:
        """Whether rows are missing that the watermark holds back, or may."""
        return any(topic.held_back or topic.undecided for topic in self.topics)

    @property
    def is_equal(self) -> bool:
        """Whether all that is due is there, for certain."""
        return all(topic.is_equal for topic in self.topics)

    @property
    def is_contradicted(self) -> bool:
        """Whether something differs for certain. If also ``is_equal`` is false, the result is undecided."""
        return any(topic.is_contradicted for topic in self.topics)

    def with_caveats(self, caveats: Iterable[str]) -> VerificationResult:
        """The same, with what may rightly make it differ."""
        return replace(self, caveats=tuple(caveats))

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "equal": self.is_equal,
            "contradicted": self.is_contradicted,
            "source": str(self.source),
            "sink": str(self.sink),
            "tables": str(self.tables),
            "compared_from": str(self.begins),
            "watermark_held_by": self.watermark_held_by,
            "topics": [topic.to_json() for topic in self.topics],
            "possible_causes": list(self.caveats),
        }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
