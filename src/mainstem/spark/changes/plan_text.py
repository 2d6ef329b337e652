"""A DataFrame's logical plan as text that stays the same as long as the plan does.

The text omits everything in Spark's analyzed plan that changes from run to run, or does not affect the result: ids of
expressions (renumbered in order of appearance), objects' addresses, UUIDs, seeds that Spark drew, names of lambda
variables and of Python functions, hints, the log's address and the other options of a source. It keeps only the topic's
columns that the plan uses: a new column of the topic does not change a plan that does not read it. Python functions are
returned beside the text: their code is not in it. One line for each node, from the result to the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pyspark import cloudpickle
from pyspark.sql import DataFrame

_LEAF: Final = re.compile(r"^StreamingRelationV2 .*?, mainstem, .*?\[(?P<options>.*)\], \[(?P<columns>[^\]]*)\]")
# A source whose options have line breaks in them, as a schema may: up to its columns it is one line.
_BROKEN_LEAF: Final = re.compile(
    r"StreamingRelationV2 [^\n]*?, mainstem, .*?\], \[[^\]\n]*\](?=,|$)", re.DOTALL | re.MULTILINE
)
_SUBSCRIBED: Final = re.compile(r"\b(?:subscribe|subscribePattern|assign)=[^=]*?(?=, [\w.]+=|$)")
_BRANCHES: Final = re.compile(r"^[\s:+|-]*[~!']?")
_ID: Final = re.compile(r"#(-?\d+)")
_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ADDRESS: Final = re.compile(r"@[0-9a-f]{4,}\b")
# Spark draws a new seed each time when the user gives none.
_SEED: Final = re.compile(r"(\b(?:rand|randn|uuid|shuffle|randstr|uniform)\([^()]*?(?:Some\()?)-?\d{12,20}\b")
_LAMBDA: Final = re.compile(r"\blambda \w+#")
_PYTHON: Final = ("PythonUDF", "PythonUDAF", "PythonUDTF")
_FIELDS_MAX: Final = 2**31 - 1


def plan_text(frame: DataFrame) -> tuple[str, list[Any]]:
    """The plan's text, and the Python functions in it, in order of appearance."""
    plan = frame._jdf.queryExecution().analyzed()
    found = list(_in_plan(plan, _pattern(frame)))
    text = _tree(plan)
    return normalized(text, tuple(name for name, _ in found)), [function for _, function in found]


def _tree(plan: Any) -> str:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    given = (True, False, _FIELDS_MAX, False)
    try:
        return str(plan.treeString(*given, False))
    except Py4JError as error:
        if "does not exist" not in str(error):
            raise
        return str(plan.treeString(*given))  # Spark 4.0 has a parameter less


def normalized(text: str, functions: tuple[str, ...] = ()) -> str:
    """``text`` without what does not count; ``functions`` are the names of the Python functions in it.

    Idempotent: what an earlier release has taken out already makes no difference.
    """
    text = _BROKEN_LEAF.sub(lambda found: found[0].replace("\n", " "), text)
    lines = [_BRANCHES.sub("", line) for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("ResolvedHint", "UnresolvedHint"))]
    above = "\n".join(line for line in lines if not _LEAF.match(line))
    text = "\n".join(_leaf(line, above) for line in lines)
    for name in functions:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}\(", "python(", text)
    text = _SEED.sub(r"\1seed", text)
    text = _ADDRESS.sub("", _UUID.sub("uuid", _LAMBDA.sub("lambda #", text)))
    numbers: dict[str, int] = {}
    return _ID.sub(lambda found: f"#{numbers.setdefault(found[1], len(numbers))}", text)


def _leaf(line: str, above: str) -> str:
    """A source's line: the topics, and the columns that are used above."""
    found = _LEAF.match(line)
    if found is None:
        return line
    topics = _SUBSCRIBED.findall(found["options"])
    used = [column for column in found["columns"].split(", ") if re.search(re.escape(_id(column)) + r"\b", above)]
    return f"Stream [{', '.join(sorted(topics))}] [{', '.join(used)}]"


def _id(column: str) -> str:
    """``#7`` of ``name#7L``."""
    found = _ID.search(column)
    return found[0] if found is not None else column


def _pattern(frame: DataFrame) -> Any:
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    return jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()


def _in_plan(plan: Any, pattern: Any) -> Iterator[tuple[str, Any]]:
    """The Python functions of a plan with their names; parts without any are not looked at."""
    if not plan.containsPattern(pattern):
        return
    for expression in _each(plan.expressions()):
        yield from _in_expression(expression, pattern)
    for below in (*_each(plan.subqueries()), *_each(plan.children())):
        yield from _in_plan(below, pattern)


def _in_expression(expression: Any, pattern: Any) -> Iterator[tuple[str, Any]]:
    if not expression.containsPattern(pattern):
        return
    if expression.getClass().getSimpleName() in _PYTHON:
        yield expression.name(), cloudpickle.loads(bytes(expression.func().command().unsafeArray()))
    for below in _each(expression.children()):
        yield from _in_expression(below, pattern)


def _each(nodes: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (nodes.apply(index) for index in range(nodes.size()))
