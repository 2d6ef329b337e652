"""Rows of a table as keys and values of its topic.

The value is a JSON object of all columns. A value that its column's type cannot hold is null there, and stands with
PostgreSQL's own text in one more field: ``"_postgres": {"price": "NaN"}``. So nothing is lost, and no reader stumbles.

A ``RowEncoder`` belongs to one shape of a table: another one takes its place when columns change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mainstem.client.values import json_text
from mainstem.errors import SchemaError
from mainstem.pipelines.definitions import TableName
from mainstem.postgres.server.column_types import ColumnType
from mainstem.postgres.server.pgoutput import UNCHANGED, Value
from mainstem.schema.types import RESERVED_NAMES, Column, TopicSchema

if TYPE_CHECKING:
    from mainstem.postgres.server.catalog import SourceTable, Types

LEFT_OVER: Final = "_postgres"
"""The field that keeps PostgreSQL's text of values that do not fit their columns."""
RESERVED: Final = RESERVED_NAMES | {LEFT_OVER}
_DECODER: Final = json.JSONDecoder(parse_int=str)  # an int of Python has at most 4,300 digits


class RowEncoder:
    """How rows with these columns become keys and values. Immutable."""

    def __init__(self, table: TableName, columns: Mapping[str, ColumnType], key: Sequence[str]) -> None:
        """Raises SchemaError when a column of the key is not there."""
        self.table = table
        self.names = tuple(columns)
        self.key = tuple(key)
        missing = [name for name in key if name not in columns]
        if missing:
            raise SchemaError(f"table {table} has lost column {missing[0]!r} of its key: take a new snapshot of it")
        self.key_places = [self.names.index(name) for name in key]
        self.kinds = [column.kind for column in columns.values()]
        self._converters = [column.to_json for column in columns.values()]
        self.prefixes = [f"{json_text(name)}:" for name in columns]
        fields = ",".join(f"{prefix.replace('%', '%%')}%s" for prefix in self.prefixes)
        self._template = f"{{{fields}}}"
        nullable = {name: name not in self.key for name in columns}
        self.schema = TopicSchema(tuple(Column(name, each.name, nullable[name]) for name, each in columns.items()))

    @classmethod
    def of_table(cls, table: SourceTable, types: Types) -> RowEncoder:
        """How rows of a table become keys and values, as the catalog has its columns."""
        columns = {each.name: types.column(each.type_oid, each.modifier, each.dimensions) for each in table.columns}
        return cls(table.name, columns, table.key)

    def tokens(self, values: Sequence[Value]) -> list[str | None]:
        """The JSON of each value: None for one that is not known (UNCHANGED), or does not fit (see ``text_of``)."""
        return [
            "null" if value is None else None if value is UNCHANGED else value if convert is None else convert(value)
            for convert, value in zip(self._converters, values, strict=True)
        ]

    def value(self, values: Sequence[Value], known: Mapping[str, str] | None = None) -> str:
        """The row as JSON. ``known``: the JSON of values that are UNCHANGED, by column."""
        tokens = self.tokens(values)
        if None not in tokens:  # so nearly always
            return self._template % tuple(tokens)
        left_over = {}
        for place, token in enumerate(tokens):
            if token is None:
                name, value = self.names[place], values[place]
                tokens[place] = "null"
                if value is not UNCHANGED:
                    left_over[name] = value
                elif known is None or name not in known:
                    raise SchemaError(f"column {name!r} of table {self.table}: its unchanged value is not known")
                else:
                    tokens[place] = known[name]
        fields = list(map(str.__add__, self.prefixes, tokens))  # type: ignore[arg-type]
        if left_over:
            fields.append(f'"{LEFT_OVER}":{json_text(left_over)}')
        return "{" + ",".join(fields) + "}"

    def key_of(self, values: Sequence[Value]) -> bytes:
        """The key of a row, or of the columns of its identity, as every writer of the product makes it.

        Raises SchemaError for a key that is null, or was not sent.
        """
        tokens = []
        for place in self.key_places:
            value, convert = values[place], self._converters[place]
            if value is None or value is UNCHANGED:
                raise SchemaError(
                    f"column {self.names[place]!r} of the key of table {self.table} came without its value: "
                    "a key must not be stored out of line; make its values shorter, or take another key"
                )
            token = value if convert is None else convert(value)
            tokens.append(json_text(value) if token is None else token)
        if len(tokens) > 1:
            return f"[{','.join(tokens)}]".encode()
        (token,) = tokens
        return (str(json.loads(token)) if token.startswith('"') else token).encode()

    def unchanged(self, values: Sequence[Value]) -> list[str]:
        """The columns whose values the stream did not repeat."""
        return [name for name, value in zip(self.names, values, strict=True) if value is UNCHANGED]


def fields_of(text: str) -> dict[str, str]:
    """The fields of a JSON object by name, each as its piece of the text, unchanged.

    Raises SchemaError for what is not a JSON object that this package has written.
    """
    found: dict[str, str] = {}
    try:
        at = 1
        while text[at] != "}":
            name, at = _DECODER.raw_decode(text, at)
            start = at + 1
            _, at = _DECODER.raw_decode(text, start)
            found[name] = text[start:at]
            at += text[at] == ","
    except (ValueError, IndexError) as error:
        raise SchemaError(f"the topic's latest value is not a row of the table: {text[:80]!r}") from error
    return found
