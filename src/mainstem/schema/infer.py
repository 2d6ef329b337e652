"""Infer a topic's schema from what a user has at hand: a dataclass, a pydantic model, or a Spark DDL string.

Python's types map to Spark SQL's: str → STRING, bool → BOOLEAN, int → BIGINT, float → DOUBLE, datetime → TIMESTAMP,
date → DATE, Decimal → DECIMAL(38,18), bytes → BINARY; lists, dicts, dataclasses and models inside of one → STRING,
their JSON text. ``X | None`` makes a column nullable. pydantic is never imported here: a model brings it along.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any

from mainstem.errors import DefinitionError
from mainstem.schema.ddl import columns_of
from mainstem.schema.types import Column, TopicSchema

# Order matters: bool is an int and datetime is a date.
_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "BOOLEAN"),
    (int, "BIGINT"),
    (float, "DOUBLE"),
    (str, "STRING"),
    (datetime.datetime, "TIMESTAMP"),
    (datetime.date, "DATE"),
    (decimal.Decimal, "DECIMAL(38,18)"),
    (bytes, "BINARY"),
    (uuid.UUID, "STRING"),
)
_NESTED = (list, tuple, set, frozenset, dict)


def schema_of(source: Any) -> TopicSchema:
    """The schema that ``source`` describes: a dataclass or pydantic model (class or instance), DDL text, or a schema.

    Raises DefinitionError, which names the field that has no column type.
    """
    if isinstance(source, TopicSchema):
        return source
    if isinstance(source, str):
        return TopicSchema(columns_of(source), ddl=source.strip())
    described = source if isinstance(source, type) else type(source)
    if not (dataclasses.is_dataclass(described) or _is_model(described)):
        raise DefinitionError(f"invalid schema {source!r}: give a dataclass, a pydantic model or a Spark DDL string")
    return TopicSchema(tuple(_column(described, name, hint) for name, hint in _fields(described)))


def _is_model(candidate: type) -> bool:
    return hasattr(candidate, "model_fields") and hasattr(candidate, "model_validate")


def _fields(described: type) -> Iterator[tuple[str, Any]]:
    if _is_model(described):
        fields: dict[str, Any] = described.model_fields  # type: ignore[attr-defined]  # pydantic's, and not imported
        yield from ((name, field.annotation) for name, field in fields.items())
        return
    try:
        hints = typing.get_type_hints(described)
    except NameError as error:
        raise DefinitionError(f"{described.__name__}: a field's type cannot be resolved: {error}") from error
    yield from ((field.name, hints[field.name]) for field in dataclasses.fields(described))


def _column(described: type, name: str, hint: Any) -> Column:
    inner, nullable = _without_none(hint)
    found = _type_of(inner)
    if found is None:
        shown = getattr(inner, "__name__", None) or str(inner)
        raise DefinitionError(
            f"{described.__name__}.{name}: {shown} has no column type; use str, bool, int, float, datetime, date, "
            "Decimal, bytes, a list, a dict or a dataclass"
        )
    return Column(name, found, nullable)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The type behind Annotated, NewType and ``| None``, and whether None was among it."""
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        else:
            break
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        if len(others) == 1:
            return _without_none(others[0])[0], True
    return hint, False


def _type_of(hint: Any) -> str | None:
    if typing.get_origin(hint) is typing.Literal:
        found = {_type_of(type(value)) for value in typing.get_args(hint)}
        return found.pop() if len(found) == 1 else None
    kind = typing.get_origin(hint) or hint
    if not isinstance(kind, type):
        return None
    if issubclass(kind, enum.Enum):
        found = {_type_of(type(member.value)) for member in kind}
        return found.pop() if len(found) == 1 else None
    if issubclass(kind, _NESTED) or dataclasses.is_dataclass(kind) or _is_model(kind):
        return "STRING"
    return next((name for python_type, name in _SCALARS if issubclass(kind, python_type)), None)
