"""The data source with ``KillingSteps`` in the place of the port that does nothing, and with small micro-batches.

An App has no option for the size of its micro-batches; so the limits lie in a file of the orders' directory.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from mainstem.spark import lake_and_topic, runner
from mainstem.spark.changes.rebuilding import Site
from mainstem.spark.options.options import WriteOptions
from mainstem.spark.planning.batch_reader import LogReader
from mainstem.spark.queries import frames
from mainstem.spark.queries.query import QueryPlace
from mainstem.spark.session import register
from mainstem.spark.sink.sink import LogStreamWriter, LogWriter
from mainstem.spark.source import MainstemDataSource
from tests.torture.mutants import build_in
from tests.torture.orders import DIRECTORY, KillingSteps
from tests.torture.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

_LIMITS = "limits"


class TorturedDataSource(MainstemDataSource):
    """Registered in the place of the product's own."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        self.options.update(json.loads(_limits().read_text()))
        return super().streamReader(schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _TorturedReader(self._reading(schema), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return LogStreamWriter(self._patient(WriteOptions.parse(self.options)), schema, KillingSteps())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return LogWriter(WriteOptions.parse(self.options), schema, KillingSteps())


class _TorturedReader(LogReader):
    """Of a batch read: ``read:planned`` when its tasks are planned, ``read:begun`` when a task has its first rows."""

    def partitions(self) -> Sequence[InputPartition]:
        planned = super().partitions()
        KillingSteps()("read:planned")
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for number, arrow_batch in enumerate(super().read(partition)):
            if number == 0:
                KillingSteps()("read:begun")
            yield arrow_batch


def limit(work: Work) -> None:
    """From now on the sources of this driver read so much at a time."""
    _limits().write_text(
        json.dumps({"maxOffsetsPerTrigger": str(work.offsets_max), "minPartitions": str(work.partitions_min)})
    )


def tortured(spark: SparkSession, mutant: str) -> None:
    """Put ours in the product's place. ``mutant`` names a fault of ``tests.torture.mutants`` to build in."""
    _register_ours(spark)
    _replace(runner, "QueryPlace", functools.partial(QueryPlace, on_step=KillingSteps()))
    _replace(runner, "Site", functools.partial(Site, on_step=KillingSteps()))
    build_in(mutant)
    _replace(frames, "register_source", _register_ours)  # what Apps' topics are read by
    _replace(lake_and_topic, "register", _registered)  # and ``ms.spark.table``


def _replace(module: ModuleType, name: str, ours: Any) -> None:
    """Set the module's name. Raises AttributeError where it has none: then the product would not use ours."""
    getattr(module, name)
    setattr(module, name, ours)


def _register_ours(spark: SparkSession) -> None:
    spark.dataSource.register(TorturedDataSource)


def _registered(spark: SparkSession) -> SparkSession:
    spark = register(spark)
    _register_ours(spark)
    return spark


def _limits() -> Path:
    return Path(os.environ[DIRECTORY]) / _LIMITS
