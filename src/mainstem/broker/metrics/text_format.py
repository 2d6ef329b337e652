"""Prometheus' text exposition format, version 0.0.4: families of samples as lines. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from mainstem.broker.metrics.meters import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels: TypeAlias = Mapping[str, object]
Sample: TypeAlias = "tuple[Labels, float]"

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def counter(name: str, help_text: str, samples: Iterable[Sample]) -> str:
    """A family that only grows; its name ends in ``_total``."""
    return _family(name, "counter", help_text, samples)


def gauge(name: str, help_text: str, samples: Iterable[Sample]) -> str:
    """A family that goes up and down."""
    return _family(name, "gauge", help_text, samples)


def histogram(name: str, help_text: str, histograms: Iterable[tuple[Labels, Histogram]]) -> str:
    """A family of histograms: cumulative buckets, their sum and their count."""
    lines = _head(name, "histogram", help_text)
    for labels, each in histograms:
        count = 0
        for bound, in_bucket in zip((*each.bounds, float("inf")), each.counts, strict=True):
            count += in_bucket
            lines.append(f"{name}_bucket{_labels({**labels, 'le': _number(bound)})} {count}\n")
        lines.append(f"{name}_sum{_labels(labels)} {_number(each.total)}\n")
        lines.append(f"{name}_count{_labels(labels)} {count}\n")
    return "".join(lines)


def _family(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> str:
    return "".join([*_head(name, kind, help_text), *_lines(name, samples)])


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}\n", f"# TYPE {name} {kind}\n"]


def _lines(name: str, samples: Iterable[Sample]) -> Iterator[str]:
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(value) if isinstance(value, int) else repr(float(value))
