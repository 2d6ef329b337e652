"""Read a Spark DDL string (``"carrier STRING NOT NULL, seats INT"``) into columns, without Spark.

It reads names, plain or in backticks; types, nested ones as they are; ``NOT NULL``; ``COMMENT '…'``, which is passed
over. A colon between name and type is allowed, as in Spark.
"""

from __future__ import annotations

import re

from mainstem.errors import DefinitionError
from mainstem.schema.types import Column, type_name

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_TOKEN = re.compile(rf"`(?:[^`]|``)*`|{_QUOTED}|[<>(),]|[^`'\"<>(),]+|.", re.DOTALL)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))\s*:?\s*")
_COMMENT = re.compile(rf"\s+COMMENT\s+(?:{_QUOTED})+\s*$", re.IGNORECASE)
# Types of Spark SQL that no column has; a part of a nested type may be of one.
_OTHER_TYPE = re.compile(r"VARIANT|VOID|INTERVAL(?:\s.*)?|TIME(?:\s*\(.*\))?", re.IGNORECASE | re.DOTALL)
_NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$", re.IGNORECASE)


def columns_of(ddl: str) -> tuple[Column, ...]:
    """The columns that ``ddl`` declares. Raises DefinitionError, which names the column that is wrong."""
    if not ddl.strip():
        raise DefinitionError('the DDL string is empty; write e.g. "carrier STRING, seats INT"')
    return tuple(_column(part) for part in parts_of(ddl))


def parts_of(ddl: str) -> list[str]:
    """The parts between the commas outside of brackets and quotes. Raises DefinitionError."""
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


def readable_type(text: str) -> str:
    """A type as readers have it: a nested one's parts may all be null, and are STRING where no column has their type.

    CHAR and VARCHAR are STRING, too; an unknown word stays as it is.
    """
    found = type_name(text)
    if found is None:
        return "STRING" if _OTHER_TYPE.fullmatch(text.strip()) else text
    opening, inside = nested_parts(found)
    if opening == "STRUCT":
        fields = [(name.replace("`", "``"), readable_type(kind)) for name, kind in fields_of(inside)]
        return f"STRUCT<{', '.join(f'`{name}`: {kind}' for name, kind in fields)}>"
    return f"{opening}<{', '.join(map(readable_type, parts_of(inside)))}>" if opening else found


def nested_parts(name: str) -> tuple[str, str]:
    """``ARRAY``, ``MAP`` or ``STRUCT`` of a canonical type, and the text between its brackets; empty for another."""
    opening = name.partition("<")[0].strip().upper()
    if opening not in ("ARRAY", "MAP", "STRUCT"):
        return "", ""
    return opening, name[name.index("<") + 1 : name.rindex(">")]


def fields_of(inside: str) -> list[tuple[str, str]]:
    """The fields of a STRUCT: names and types, which may be any text. Raises DefinitionError."""
    return [(name, kind) for name, kind, _ in map(_pieces, parts_of(inside))] if inside.strip() else []


def _column(part: str) -> Column:
    name, type_text, nullable = _pieces(part)
    found = type_name(type_text)
    if found is None:
        raise DefinitionError(f"column {name!r}: {type_text.strip()!r} is not a type that a column can have")
    return Column(name, found, nullable=nullable)


def _pieces(part: str) -> tuple[str, str, bool]:
    """A column's name, the text of its type, and whether it may be null."""
    name = _NAME.match(part)
    if name is None:
        raise DefinitionError("the DDL string has a comma with no column beside it")
    rest = _COMMENT.sub("", part[name.end() :])
    type_text = _NOT_NULL.sub("", rest)
    return name[1].replace("``", "`") if name[1] else name[2], type_text, type_text == rest
