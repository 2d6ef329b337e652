"""The Prometheus names of a metrics view's figures. They consist of letters, digits and underscores.

Pure. A view's definition is refused when two of its names would become the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NO_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_]")
_OF_HISTOGRAMS = ("", "_bucket", "_sum", "_count")
LE = "le"


def metric_name(text: str) -> str:
    """``text`` as a metric's name or a label's."""
    name = _NO_NAME_CHARS.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def records_name(view: str) -> str:
    """The counter of records."""
    return f"{metric_name(view)}_records_total"


def tombstones_name(view: str) -> str:
    """The counter of tombstones."""
    return f"{metric_name(view)}_tombstones_total"


def value_name(view: str, value: str) -> str:
    """The histogram of a value."""
    return f"{metric_name(view)}_{_NO_NAME_CHARS.sub('_', value)}"


def name_fault(by: Sequence[str], values: Sequence[str]) -> str | None:
    """The fault in the names of labels and values; None when they are valid."""
    if both := set(by) & set(values):
        return f"{min(both)!r} is a label and a value; it can be one of them"
    labels = [metric_name(label) for label in by]
    for label, name in zip(by, labels, strict=True):
        if name == LE or name.startswith("__") or labels.count(name) > 1:
            return f"the label {label!r} would be {name!r} in Prometheus' format, which is taken"
    families = [records_name(""), tombstones_name("")]
    for value in values:
        names = [value_name("", value) + end for end in _OF_HISTOGRAMS]
        if taken := set(names) & set(families):
            return f"the value {value!r} would be {min(taken)[1:]!r} in Prometheus' format, which is taken"
        families += names
    return None
