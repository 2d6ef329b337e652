"""How a topic's rows become keys and values, unless the topic says otherwise.

* **Key**: one key column → the UTF-8 text of its value (text as it is, ``17``, ``1.5``, ``true``, ``2013-01-01``,
  ``2013-01-01T10:00:00Z``); several → a compact JSON array of them.
* **Value**: a JSON object of all columns in UTF-8; a null value is a tombstone.

The same row always gives the same key bytes, whoever writes it: compaction and key-value views depend on it.
Pure functions; safe from any thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mainstem.client.values import json_text, key_bytes
from mainstem.errors import SchemaError


def encode_key(row: Mapping[str, Any], key_columns: Sequence[str]) -> bytes | None:
    """The key of ``row``; None when there are no key columns.

    Raises SchemaError when a key column is missing or null: such a row has no identity.
    """
    if not key_columns:
        return None
    for name in key_columns:
        if row.get(name) is None:
            raise SchemaError(f"key column {name!r} is {'null' if name in row else 'missing'} in the record")
    values = [row[name] for name in key_columns]
    return key_bytes(values[0] if len(values) == 1 else values)


def decode_key(key: bytes, key_columns: Sequence[str]) -> dict[str, Any]:
    """Key column → its value: the text of a single column, the JSON values of several. Raises SchemaError."""
    text = _text(key, "key")
    if len(key_columns) == 1:
        return {key_columns[0]: text}
    values = _json(text, "key")
    if not isinstance(values, list) or len(values) != len(key_columns):
        raise SchemaError(f"the key {text[:80]!r} is not a JSON array of {len(key_columns)} values")
    return dict(zip(key_columns, values, strict=True))


def encode_value(row: Mapping[str, Any] | None) -> bytes | None:
    """The value of ``row``; None gives a tombstone. Raises SchemaError when a value has no JSON form."""
    return None if row is None else json_text(row).encode()


def decode_value(value: bytes | None) -> dict[str, Any] | None:
    """The columns of a value; a tombstone gives None. Raises SchemaError when it is not a JSON object."""
    if value is None:
        return None
    row = _json(_text(value, "value"), "value")
    if not isinstance(row, dict):
        raise SchemaError(f"the value is not a JSON object but {_shown(value)}")
    return row


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"the {what} is not UTF-8 text: {_shown(data)}") from error


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the {what} is not JSON ({error}): {text[:80]!r}") from error


def _shown(data: bytes) -> str:
    return repr(data[:80]) + ("…" if len(data) > 80 else "")
