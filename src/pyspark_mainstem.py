"""Makes ``format("mainstem")`` known to Spark without registering it: to install Mainstem is enough.

Spark looks once in a session, when a data source is first asked for, through all top-level modules whose names begin
with ``pyspark_``, and takes the class ``DefaultSource`` of each; whoever has Mainstem installed pays for this import,
whatever they read. So it loads nothing but what Spark's own look-up has loaded already: the source itself comes with
its first use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Stands in for ``mainstem.spark.source.MainstemDataSource``, which answers everything."""

    @classmethod
    def name(cls) -> str:
        return "mainstem"

    def schema(self) -> StructType | str:
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return self._source().streamWriter(schema, overwrite)

    def _source(self) -> DataSource:
        try:
            from mainstem.spark.source import MainstemDataSource
        except ImportError as error:
            raise ImportError(
                f"the Python of Spark's workers, {sys.executable}, cannot load Mainstem ({error}); there, run: "
                "pip install 'mainstem[spark]', or set PYSPARK_PYTHON to the Python that has it"
            ) from error
        return cast(DataSource, MainstemDataSource(self.options))
