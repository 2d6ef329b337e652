"""The fingerprint of the pipeline that a checkpoint belongs to, in ``<checkpoint>/mainstem.json``.

A checkpoint holds offsets and state of one plan. Another plan that continues from it may fail, or silently mix the rows
of two versions. So the fingerprint is written before a query first starts, and compared before it starts again.

It covers what is derived: the plan (``plan_text``), the Python functions in it (``function_digest``), the inputs, the
outputs with their keys and columns, the output mode. Settings that state depends on (the number of shuffle partitions,
the state store) are not in it: Spark keeps them in the checkpoint and uses those. Versions of Spark and Python are kept
only to explain a difference; a new version alone is not a difference.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from typing import Any, Final

import pyspark

from mainstem.durable_files import LOCAL_FILES, FileSystem, make_directory, replace_file
from mainstem.errors import StorageError
from mainstem.pipelines.function_digest import digest
from mainstem.spark.changes.plan_text import normalized, plan_text
from mainstem.spark.checkpoints.checkpoint import local_path
from mainstem.spark.queries.query import Query

FILE: Final = "mainstem.json"
_SHOWN_CHARS_MAX: Final = 160
_BEFORE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A pipeline's fingerprint. ``functions`` are digests, in the order in which the plan names the functions."""

    plan: str
    functions: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    mode: str
    spark: str
    python: str

    @classmethod
    def of(cls, query: Query) -> Fingerprint:
        """That of a query as it is declared now."""
        pipeline = query.pipeline
        plan, functions = plan_text(query.frame)
        if pipeline.each_batch:
            functions.append(pipeline.function)
        tables = {topic.name for topic in pipeline.tables}
        return cls(
            plan=plan,
            functions=tuple(digest(function) for function in functions),
            inputs=(*(topic.name for topic in pipeline.streams), *(f"table {name}" for name in sorted(tables))),
            outputs=tuple(
                f"{topic.name} key ({', '.join(topic.key)}) {_columns(query, topic.name)}" for topic in pipeline.outputs
            ),
            mode=pipeline.mode,
            spark=".".join(pyspark.__version__.split(".")[:2]),
            python=".".join(map(str, sys.version_info[:2])),
        )

    def differences(self, now: Fingerprint) -> list[str]:
        """The differences, each in a few words; empty when the pipeline derives the same as before."""
        found = []
        if self.inputs != now.inputs:
            found.append(f"the inputs were {', '.join(self.inputs)}, now {', '.join(now.inputs)}")
        if self.outputs != now.outputs:
            was, became = _apart("; ".join(self.outputs), "; ".join(now.outputs))
            found.append(f"the output was {was}, now {became}")
        if self.mode != now.mode:
            found.append(f"the mode was {self.mode}, now {now.mode}")
        if self.plan != now.plan:
            found.append(_plan_difference(self.plan, now.plan))
        elif self.functions != now.functions:
            found.append("the code of a Python function in it is another")
        if found and (self.spark, self.python) != (now.spark, now.python):
            versions = f"Spark {self.spark}, Python {self.python}"
            found.append(f"it was run by {versions}, now Spark {now.spark}, Python {now.python}: that alone may be why")
        return found


def read(checkpoint: str) -> Fingerprint | None:
    """The fingerprint beside a checkpoint; None when there is none. Raises StorageError when it cannot be read."""
    path = local_path(checkpoint) / FILE
    try:
        document = json.loads(path.read_text())
        for name in ("functions", "inputs", "outputs"):
            document[name] = tuple(document[name])
        document["plan"] = normalized(document["plan"])
        return Fingerprint(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(
            f"{path} cannot be read ({error}); remove it to go on without knowing whether the pipeline was changed"
        ) from error


def write(checkpoint: str, fingerprint: Fingerprint, files: FileSystem = LOCAL_FILES) -> None:
    """Leave it beside the checkpoint, durably. Raises StorageError."""
    directory = local_path(checkpoint)
    try:
        make_directory(directory)
        replace_file(files, directory / FILE, json.dumps(dataclasses.asdict(fingerprint), indent=1).encode())
    except StorageError as error:
        raise StorageError(f"{directory / FILE} cannot be written: {error}") from error


def _columns(query: Query, topic: str) -> str:
    schema: Any = query.schemas.get(topic)
    return "" if schema is None else ", ".join(f"{column.name} {column.type}" for column in schema.columns)


def _plan_difference(before: str, now: str) -> str:
    """The first line in which two plans differ."""
    was, became = before.splitlines(), now.splitlines()
    for one, other in zip(was, became, strict=False):
        if one != other:
            had, has = _apart(one, other)
            return f"its plan had {had}, now {has}"
    longer, word = (became, "now has") if len(became) > len(was) else (was, "had")
    return f"its plan {word} {_shown(longer[min(len(was), len(became))])}"


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two texts that differ, each from shortly before the first difference on when it does not fit as a whole."""
    if max(len(one), len(other)) <= _SHOWN_CHARS_MAX:
        return one, other
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, first - _BEFORE_CHARS)
    mark = "…" if start else ""
    return mark + _shown(one[start:]), mark + _shown(other[start:])


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"
