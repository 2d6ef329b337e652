"""Whether values fit their topic's registered schema, by the one reading of values (``schema.json_columns``).

A value that a reader would see as null or poison is refused before it is appended. ``Validator`` is for who appends:
the log itself takes any bytes, as Kafka's does. It keeps a schema for ``SCHEMA_KEPT_S`` seconds. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mainstem.client.log import Log
from mainstem.client.values import value_bytes
from mainstem.clock import Clock, SystemClock
from mainstem.errors import SchemaError
from mainstem.record.native.native_json import GOOD
from mainstem.schema.arrow import value_type
from mainstem.schema.json_columns import NO_VALUE, JsonField, decode, reason
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import Column

SCHEMA_KEPT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Checks JSON values against some columns of a schema."""

    columns: tuple[Column, ...]
    fields: tuple[JsonField, ...]

    @classmethod
    def of(cls, columns: Iterable[Column]) -> SchemaCheck:
        """A check of these columns; without any, of the JSON alone."""
        checked = tuple(columns)
        return cls(checked, tuple(JsonField(each.name, value_type(each.type), as_text=True) for each in checked))

    def require(self, values: pa.Array, where: Callable[[int], str]) -> None:
        """Raise SchemaError for the first value that does not fit; ``where`` names a row by its index.

        A null value, a tombstone, fits.
        """
        decoded = decode(values, self.fields)
        bad = np.flatnonzero((decoded.verdicts != GOOD) & (decoded.verdicts != NO_VALUE))
        if len(bad):
            index = int(bad[0])
            said = reason(values[index].as_py(), int(decoded.verdicts[index])).removeprefix("the value ")
            raise SchemaError(f"{where(index)} {said}")
        found: list[tuple[int, str]] = []
        for number, column in enumerate(self.columns):
            read = decoded.columns[number]
            if read.misfits is not None:
                index = int(np.flatnonzero(read.misfits)[0])
                found.append((index, f"column {column.name!r}: {decoded.shown(number, index)} is not {column.type}"))
            if not column.nullable and read.array.null_count:
                lacking = np.asarray(read.array.is_null()) & (decoded.verdicts == GOOD)
                lacking = lacking if read.misfits is None else lacking & ~read.misfits
                if lacking.any():
                    index = int(np.flatnonzero(lacking)[0])
                    found.append((index, f"column {column.name!r} is null or missing, and the schema says NOT NULL"))
        if found:
            index, said = min(found)
            raise SchemaError(f"{where(index)}: {said}")


class Validator:
    """Checks values before they are appended: ``validator.require("flights", row)``, then ``log.append``."""

    def __init__(self, log: Log, clock: Clock | None = None) -> None:
        """Connect to nothing yet.

        Args:
            log: The log, and the schemas of its topics.
            clock: The time; tests give one of their own.
        """
        self._log = log
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[SchemaCheck, float]] = {}

    def require(self, topic: str, *values: Any) -> None:
        """Check that values fit the topic's schema.

        Args:
            topic: The topic.
            values: What ``Log.append`` takes; None, a tombstone, fits.

        Raises:
            SchemaError: A value does not fit, or the topic has no schema. The error says which value and column.

        Examples:
            >>> ms.Validator(log).require("flights", {"carrier": "UA", "delay": 2})
        """
        check = self._check(topic)
        check.require(
            pa.array([value_bytes(value) for value in values], pa.binary()),
            lambda index: f"topic {topic}: value {index + 1} of {len(values)}" if len(values) > 1 else f"topic {topic}",
        )

    def _check(self, topic: str) -> SchemaCheck:
        with self._lock:
            known = self._known.get(topic)
        if known is not None and self._clock.monotonic_s() < known[1]:
            return known[0]
        registered = lookup(self._log, topic)
        if registered is None:
            raise SchemaError(f"topic {topic} has no schema to validate by: declare one in an App and run or deploy it")
        check = SchemaCheck.of(registered.schema.columns)
        with self._lock:
            self._known[topic] = check, self._clock.monotonic_s() + SCHEMA_KEPT_S
        return check
