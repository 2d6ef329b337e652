"""Read a Spark DDL string (``"carrier STRING NOT NULL, seats INT"``) into columns, without Spark.

What is read: names, plain or in backticks; types, nested ones kept as they stand; ``NOT NULL``; ``COMMENT '…'``, which
is passed over. A colon between name and type is allowed, as in Spark.
"""

from __future__ import annotations

import re

from mainstem.errors import DefinitionError
from mainstem.schema.types import Column, type_name

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_TOKEN = re.compile(rf"`(?:[^`]|``)*`|{_QUOTED}|[<>(),]|[^`'\"<>(),]+|.", re.DOTALL)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))\s*:?\s*")
_COMMENT = re.compile(rf"\s+COMMENT\s+(?:{_QUOTED})+\s*$", re.IGNORECASE)
_NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$", re.IGNORECASE)


def columns_of(ddl: str) -> tuple[Column, ...]:
    """The columns that ``ddl`` declares. Raises DefinitionError, which names the column that is wrong."""
    if not ddl.strip():
        raise DefinitionError('the DDL string is empty; write e.g. "carrier STRING, seats INT"')
    return tuple(_column(part) for part in parts_of(ddl))


def parts_of(ddl: str) -> list[str]:
    """The parts between the commas that stand outside of brackets and quotes. Raises DefinitionError."""
    parts: list[str] = []
    depth, part = 0, ""
    for token in _TOKEN.findall(ddl):
        if token == "," and depth == 0:
            parts.append(part)
            part = ""
            continue
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token, 0)
        part += token
    if depth != 0:
        raise DefinitionError(f"the DDL string has a bracket that does not close: {ddl!r}")
    return [*parts, part]


def _column(part: str) -> Column:
    name = _NAME.match(part)
    if name is None:
        raise DefinitionError("the DDL string has a comma with no column beside it")
    rest = _COMMENT.sub("", part[name.end() :])
    type_text = _NOT_NULL.sub("", rest)
    column = name[1].replace("``", "`") if name[1] else name[2]
    found = type_name(type_text)
    if found is None:
        raise DefinitionError(f"column {column!r}: {type_text.strip()!r} is not a type of Spark SQL")
    return Column(column, found, nullable=type_text == rest)
