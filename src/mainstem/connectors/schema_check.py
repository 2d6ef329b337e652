"""Whether the rows of Arrow batches fit their topic's schema: ``schema.validation`` of what they are as JSON.

What would be null, poison or an error to a reader later is refused before anything is written. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from mainstem.connectors.json_text import json_objects
from mainstem.schema.arrow import arrow_type
from mainstem.schema.types import Column, TopicSchema
from mainstem.schema.validation import SchemaCheck


def require_fit(schema: TopicSchema | None, arrow_batch: pa.RecordBatch, where: Callable[[int], str]) -> None:
    """Raise SchemaError for the first value that does not fit; ``where`` names a row by its index.

    Columns that fit by their Arrow type are passed over.
    """
    types = {field.name: field.type for field in arrow_batch.schema}
    columns = () if schema is None else schema.columns
    doubtful = [each for each in columns if not _always_fits(each, types.get(each.name))]
    if doubtful:
        values = json_objects(arrow_batch.select([each.name for each in doubtful]))
        SchemaCheck.of(doubtful).require(values, where)


def _always_fits(column: Column, kind: pa.DataType | None) -> bool:
    if kind is None or not column.nullable:
        return False
    if column.type == "STRING":
        return True
    return not pa.types.is_string(kind) and bool(kind == arrow_type(column.type))
