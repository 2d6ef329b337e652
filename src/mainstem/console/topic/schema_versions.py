"""The versions of a topic's registered schema, and what differs between them. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version: its columns by name, as ``TYPE`` or ``TYPE NOT NULL``, and the columns of the key."""

    number: int
    time_ms: int
    columns: dict[str, str]
    key: tuple[str, ...]
    encoding: str | None


def versions_of(records: Sequence[dict[str, Any]]) -> list[SchemaVersion]:
    """The versions that the records of the schemas' topic hold, newest first; what cannot be read is left out."""
    found: list[SchemaVersion] = []
    for record in records:
        value = record.get("value")
        if not isinstance(value, dict):
            found.clear()  # the topic's schema was removed
            continue
        try:
            columns = {str(each["name"]): _type(each) for each in value["columns"]}
            key, number = tuple(map(str, value.get("key", ()))), int(value.get("version", 1))
        except (KeyError, TypeError, ValueError):
            continue
        encoding = value.get("encoding")
        found.append(SchemaVersion(number, int(record["timestamp_ms"]), columns, key, encoding and str(encoding)))
    return found[::-1]


def differences(old: SchemaVersion, new: SchemaVersion) -> list[str]:
    """The changes of the newer version, a line each."""
    lines = [f"+ {name} {kind}" for name, kind in new.columns.items() if name not in old.columns]
    lines += [f"− {name} {kind}" for name, kind in old.columns.items() if name not in new.columns]
    lines += [
        f"~ {name}: {old.columns[name]} → {kind}"
        for name, kind in new.columns.items()
        if old.columns.get(name, kind) != kind
    ]
    if old.key != new.key:
        lines.append(f"~ key: {', '.join(old.key) or 'none'} → {', '.join(new.key) or 'none'}")
    if old.encoding != new.encoding:
        lines.append(f"~ encoding: {old.encoding or 'JSON'} → {new.encoding or 'JSON'}")
    return lines or ["the order of the columns"]


def _type(column: dict[str, Any]) -> str:
    return str(column["type"]) + ("" if column.get("nullable", True) else " NOT NULL")
