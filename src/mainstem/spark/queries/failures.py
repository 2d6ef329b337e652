"""The cause of a query's failure in one line: the pipeline's own function and line, the exception, and the input.

Spark wraps a task's exception in several errors of its own; their text contains the Python traceback. The query's
checkpoint has the failed micro-batch and the offsets that it read.
"""

from __future__ import annotations

import re
from pathlib import Path

from mainstem.errors import MainstemError
from mainstem.model import Position
from mainstem.pipelines.definitions import Pipeline
from mainstem.spark.checkpoints.checkpoint import last_committed, last_planned, read_offsets

_CAUSE_CHARS_MAX = 500
_PARTITIONS_SHOWN = 8
# The last line of a Python traceback, without the module of the exception.
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*|$))")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
# The line where the user's code called the expression of a DataFrame that failed; the SQL text that failed.
_EXPRESSION = re.compile(r'== DataFrame ==\n"[^"]*" was called from\n(\S.*):(\d+)')
_SQL = re.compile(r"== SQL[^\n]*==\n([^\n]+)")


def cause(pipeline: Pipeline, checkpoint: str, text: str) -> str:
    """``flights.py:12, in divide: ZeroDivisionError: …; in micro-batch 7 (flights/0:[12, 20))``, from Spark's error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [match[1] for match in map(_RAISED.fullmatch, lines) if match]
    said = (raised[-1] if raised else next(iter(lines), "unknown"))[:_CAUSE_CHARS_MAX]
    return f"{_place(pipeline, text)}: {said}{_micro_batch(checkpoint)}"


def _place(pipeline: Pipeline, text: str) -> str:
    """The innermost line of the user's code, which is in the pipeline's file or below its directory.

    If the traceback has none: the expression that Spark names, or else the pipeline's function.
    """
    file = pipeline.function.__code__.co_filename
    frames = _FRAME.findall(text)
    own = [frame for frame in frames if frame[0] == file] or [frame for frame in frames if _is_near(frame[0], file)]
    if own:
        found, line, function = own[-1]
        return f"{Path(found).name}:{line}, in {function}"
    expression, sql = _EXPRESSION.search(text), _SQL.search(text)
    if expression is not None:
        return f"{Path(expression[1]).name}:{expression[2]}"
    place = f"{pipeline.where}, in {pipeline.function.__name__}"
    return place if sql is None else f"{place}, in {sql[1].strip()!r}"


def _is_near(found: str, file: str) -> bool:
    return Path(found).is_relative_to(Path(file).parent) and "site-packages" not in found


def _micro_batch(checkpoint: str) -> str:
    """The micro-batch that was planned and not committed, with its offsets; empty when there is none."""
    try:
        planned, committed = last_planned(checkpoint), last_committed(checkpoint)
        if planned is None or planned == committed:
            return ""
        start = read_offsets(checkpoint, planned - 1).position if planned else Position()
        return f"; in micro-batch {planned}{_ranges(start, read_offsets(checkpoint, planned).position)}"
    except MainstemError:
        return ""  # an unreadable checkpoint must not hide the query's own error


def _ranges(start: Position, end: Position) -> str:
    read = [f"{tp}:[{start.get(tp, 0)}, {offset})" for tp, offset in end.items() if offset > start.get(tp, 0)]
    more = ", …" if len(read) > _PARTITIONS_SHOWN else ""
    return f" ({', '.join(read[:_PARTITIONS_SHOWN])}{more})" if read else ""
