"""Spark's schemas and a topic's schema: one into the other, and what of a DataFrame can be written as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, types
from pyspark.sql import functions as sf

from mainstem.errors import SchemaError
from mainstem.schema.types import RESERVED_NAMES, Column, TopicSchema, type_name
from mainstem.spark.options.columns import quoted

_NESTED = (types.ArrayType, types.MapType, types.StructType, types.VariantType)
_TO_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TEXT = (types.DayTimeIntervalType, types.YearMonthIntervalType, types.NullType)


def topic_schema(schema: types.StructType) -> TopicSchema:
    """The schema to register for a topic that is derived with these columns. Raises SchemaError."""
    return TopicSchema(tuple(Column(field.name, _type(field.name, field.dataType)) for field in schema.fields))


def _type(name: str, data_type: types.DataType) -> str:
    if isinstance(data_type, (*_TEXT, types.VariantType)):
        return "STRING"
    found = type_name(data_type.simpleString().upper() if not isinstance(data_type, _NESTED) else _nested(data_type))
    if found is None:
        raise SchemaError(f"column {name!r} has the type {data_type.simpleString()}, which has no JSON form; cast it")
    return found


def _nested(data_type: types.DataType) -> str:
    text = data_type.simpleString()
    opening = text.index("<")
    return text[:opening].upper() + text[opening:]


def require_columns(wanted: types.StructType, offered: Mapping[str, str]) -> None:
    """Raises SchemaError for a column of ``.schema(…)`` that is not among those ``offered``, or of another type."""
    for field in wanted.fields:
        if field.name not in offered:
            raise SchemaError(f".schema(…): there is no column {field.name}; there are {', '.join(offered)}")
        given = field.dataType.simpleString()
        if _comparable(given) != _comparable(offered[field.name]):
            raise SchemaError(
                f".schema(…): the column {field.name} is {offered[field.name]}, not {given.upper()}; "
                "read it as it is, and cast it"
            )


def _comparable(type_text: str) -> str:
    """Of two spellings of one type, the same; of nested types, only how they begin."""
    return type_text.lower().replace(" ", "").partition("<")[0]


def for_writing(frame: DataFrame) -> tuple[DataFrame, frozenset[str]]:
    """The columns to write, without those that readers add, and which of them are JSON text already.

    These are the ones with a part that Arrow has no form of: a variant, an interval.

    Raises SchemaError when two columns have one name.
    """
    fields = [field for field in frame.schema.fields if field.name.lower() not in RESERVED_NAMES]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"the result has the column {', '.join(twice)} twice; rename or drop one of them")
    kept = frame.drop(*RESERVED_NAMES) if len(fields) < len(frame.schema.fields) else frame
    nested = frozenset(field.name for field in fields if not _is_for_arrow(field.dataType))
    others = frozenset(field.name for field in fields if isinstance(field.dataType, _TEXT))
    if not nested and not others:
        return kept, nested
    return kept.select(*(_writable(kept, name, nested, others) for name in names)), nested


def _writable(frame: DataFrame, name: str, nested: frozenset[str], others: frozenset[str]) -> SparkColumn:
    column = frame[quoted(name)]
    if name in nested:
        return sf.to_json(column, _TO_JSON).alias(name)
    return column.cast("string").alias(name) if name in others else column


def _is_for_arrow(data_type: types.DataType, *, inside: bool = False) -> bool:
    """Whether tasks get the column as it is; a lone interval they get as text."""
    if isinstance(data_type, types.ArrayType):
        return _is_for_arrow(data_type.elementType, inside=True)
    if isinstance(data_type, types.MapType):
        parts = (data_type.keyType, data_type.valueType)
        return all(_is_for_arrow(part, inside=True) for part in parts)
    if isinstance(data_type, types.StructType):
        return all(_is_for_arrow(field.dataType, inside=True) for field in data_type.fields)
    return not isinstance(data_type, types.VariantType) and not (inside and isinstance(data_type, _TEXT))
