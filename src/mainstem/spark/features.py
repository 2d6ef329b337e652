"""Which parts PySpark has here: Spark 4.0 and 4.1 lack some. They are found by looking, not by the version.

* ``HAS_ADMISSION_CONTROL``: Spark passes where a stream stands, and a limit, to ``latestOffset``, and lets a Python
  source take part in ``Trigger.AvailableNow``. Without it the limits' classes here are stand-ins, which only we use.
* ``HAS_FILTERS``: Spark hands the filters of a batch read down.
* ``DataSourceStreamArrowWriter``: a stream's rows as Arrow batches. Where Spark has no such class, it gives Arrow
  batches to every ``DataSourceArrowWriter``, also to a stream's.

docs/spark/versions.md says what users notice.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource

HAS_ADMISSION_CONTROL: Final = importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
HAS_FILTERS: Final = hasattr(datasource.DataSourceReader, "pushFilters")

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

if TYPE_CHECKING or HAS_ADMISSION_CONTROL:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """A limit of a micro-batch."""

    class ReadAllAvailable(ReadLimit):
        """No limit."""

    class ReadMaxRows(ReadLimit):
        """At most so many rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class ReadMinRows(ReadLimit):
        """At least so many rows."""

        def __init__(self, min_rows: int) -> None:
            self.min_rows = min_rows

    class ReadMaxBytes(ReadLimit):
        """At most so many bytes."""

        def __init__(self, max_bytes: int) -> None:
            self.max_bytes = max_bytes

    class SupportsTriggerAvailableNow:
        """Spark does not look for it."""


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """A stream's writer that gets Arrow batches."""


__all__ = [
    "HAS_ADMISSION_CONTROL",
    "HAS_FILTERS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
]


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame's columns. Times are in UTC, which is the only choice before Spark 4.2."""
    from pyspark.sql.pandas.types import to_arrow_schema  # for tasks alone

    return to_arrow_schema(schema, timezone="UTC") if _takes_timezone() else to_arrow_schema(schema)


@functools.cache
def _takes_timezone() -> bool:
    from pyspark.sql.pandas.types import to_arrow_schema

    return "timezone" in inspect.signature(to_arrow_schema).parameters
