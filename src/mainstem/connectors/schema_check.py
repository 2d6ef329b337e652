"""Whether the rows of Arrow batches fit their topic's schema: ``schema.validation`` of what they are as JSON.

A value that a reader would see as null, poison or an error is refused before anything is written. Pure functions.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.connectors.json_text import json_objects
from mainstem.schema.arrow import arrow_type
from mainstem.schema.types import Column, TopicSchema
from mainstem.schema.validation import SchemaCheck

_DAYS: Final = (datetime.date.min, datetime.date.max)
_TIMES: Final = (datetime.datetime.min, datetime.datetime.max)


def require_fit(schema: TopicSchema | None, arrow_batch: pa.RecordBatch, where: Callable[[int], str]) -> None:
    """Raise SchemaError for the first value that does not fit; ``where`` names a row by its index.

    Columns that fit by their Arrow type are passed over.
    """
    given = dict(zip(arrow_batch.schema.names, arrow_batch.columns, strict=True))
    columns = () if schema is None else schema.columns
    doubtful = [each for each in columns if not _always_fits(each, given.get(each.name))]
    if doubtful:
        values = json_objects(arrow_batch.select([each.name for each in doubtful]))
        SchemaCheck.of(doubtful).require(values, where)


def _always_fits(column: Column, values: pa.Array | None) -> bool:
    if values is None or not column.nullable:
        return False
    if column.type == "STRING":
        return True
    kind = values.type
    return not pa.types.is_string(kind) and bool(kind == arrow_type(column.type)) and _is_in_years(values)


def _is_in_years(values: pa.Array) -> bool:
    """Whether the dates or times among the values are of the years that the types take, 1 to 9999."""
    kind = values.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return True
    size = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    first, last = (pa.scalar(end).cast(kind).cast(size) for end in (_DAYS if pa.types.is_date(kind) else _TIMES))
    found: dict[str, Any] = pc.min_max(values.cast(size)).as_py()
    return found["min"] is None or bool(found["min"] >= first.as_py() and found["max"] <= last.as_py())
