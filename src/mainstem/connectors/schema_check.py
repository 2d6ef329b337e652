"""Whether a file's rows fit their topic's schema, by the one reading of values (``schema.json_columns``).

What would be null, poison or an error to a reader later is refused before anything is written. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.connectors.json_text import json_objects
from mainstem.errors import SchemaError
from mainstem.record.native_json import GOOD
from mainstem.schema.arrow import arrow_type, value_type
from mainstem.schema.json_columns import JsonField, decode, reason
from mainstem.schema.types import Column, TopicSchema


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Checks values against some columns of a schema."""

    columns: tuple[Column, ...]
    fields: tuple[JsonField, ...]

    @classmethod
    def of(cls, schema: TopicSchema | None) -> SchemaCheck:
        """A check of all columns; without a schema, of the JSON alone."""
        columns = () if schema is None else schema.columns
        return cls(columns, tuple(JsonField(each.name, value_type(each.type), as_text=True) for each in columns))

    @classmethod
    def of_batch(cls, schema: TopicSchema | None, arrow_schema: pa.Schema) -> SchemaCheck:
        """A check of the columns of Arrow batches that may not fit by their type alone."""
        if schema is None:
            return cls((), ())
        types = {field.name: field.type for field in arrow_schema}
        doubtful = [each for each in schema.columns if not _always_fits(each, types.get(each.name))]
        return cls.of(TopicSchema(tuple(doubtful))) if doubtful else cls((), ())

    def require(self, values: pa.Array, where: Callable[[int], str]) -> None:
        """Raise SchemaError for the first value that does not fit; ``where`` names a row by its index."""
        decoded = decode(values, self.fields)
        bad = np.flatnonzero(decoded.verdicts != GOOD)
        if len(bad):
            index = int(bad[0])
            said = reason(values[index].as_py(), int(decoded.verdicts[index])).removeprefix("the value ")
            raise SchemaError(f"{where(index)} {said}")
        found: list[tuple[int, str]] = []
        for number, column in enumerate(self.columns):
            read = decoded.columns[number]
            if read.misfits is not None:
                index = int(np.flatnonzero(read.misfits)[0])
                shown = decoded.shown(number, index)
                found.append((index, f"column {column.name!r}: {shown} is not {column.type}"))
            if not column.nullable and read.array.null_count:
                lacking = np.asarray(read.array.is_null())
                lacking = lacking if read.misfits is None else lacking & ~read.misfits
                if lacking.any():
                    index = int(np.flatnonzero(lacking)[0])
                    found.append((index, f"column {column.name!r} is null or missing, and the schema says NOT NULL"))
        if found:
            index, said = min(found)
            raise SchemaError(f"{where(index)}: {said}")

    def require_batch(self, arrow_batch: pa.RecordBatch, where: Callable[[int], str]) -> None:
        """``require`` for the rows of a batch, which has all columns."""
        if self.columns:
            self.require(json_objects(arrow_batch.select(_names(self.columns))), where)


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _always_fits(column: Column, kind: pa.DataType | None) -> bool:
    if kind is None or not column.nullable:
        return False
    if column.type == "STRING":
        return True
    return not pa.types.is_string(kind) and bool(kind == arrow_type(column.type))
