"""A metrics view's figures as a page in Prometheus' text exposition format, version 0.0.4. Pure.

In a label's value backslash, quote and line feed are escaped, in a help text backslash and line feed. A label that is
empty is the same as none there, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mainstem.pipelines.metric_names import LE, metric_name, records_name, tombstones_name, value_name
from mainstem.views.stores.metrics.figures import Figures

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})

Labels = Mapping[str, str]


def page(
    view: str,
    figures: Sequence[tuple[Labels, Figures]],
    values: Sequence[str],
    bounds: Sequence[float],
    tombstones: int,
) -> str:
    """Records, tombstones and a histogram of each value, by labels."""
    lines = _head(records_name(view), "counter", f"Records of the view {view}.")
    lines += [f"{records_name(view)}{_labels(labels)} {each.records}\n" for labels, each in figures]
    lines += _head(tombstones_name(view), "counter", f"Tombstones among the records of the view {view}.")
    lines.append(f"{tombstones_name(view)} {tombstones}\n")
    for value in values:
        name = value_name(view, value)
        lines += _head(name, "histogram", f"{value} of the records of the view {view}.")
        for labels, each in figures:
            lines += _histogram(name, labels, each, value, bounds)
    return "".join(lines)


def _histogram(name: str, labels: Labels, figures: Figures, value: str, bounds: Sequence[float]) -> Iterable[str]:
    found = figures.values.get(value)
    if found is None:
        return
    below = 0
    for bound, within in zip((*bounds, float("inf")), found.buckets, strict=True):
        below += within
        yield f"{name}_bucket{_labels(labels, {LE: number(bound)})} {below}\n"
    infinite = "-Inf" if found.units < 0 else "+Inf"
    yield f"{name}_sum{_labels(labels)} {infinite if found.sum is None else number(found.sum)}\n"
    yield f"{name}_count{_labels(labels)} {found.count}\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text.translate(_HELP_ESCAPES)}\n", f"# TYPE {name} {kind}\n"]


def _labels(labels: Labels, own: Labels = {}) -> str:  # noqa: B006  # read only
    named = {metric_name(name): value for name, value in labels.items() if value}
    inner = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in {**named, **own}.items())
    return f"{{{inner}}}" if inner else ""


def number(value: float) -> str:
    """A number as Prometheus reads it."""
    return "+Inf" if value == float("inf") else repr(value)
