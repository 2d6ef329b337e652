"""Spark sessions that work at once: Java found or a clear error, this Python in the workers, quiet logs, Arrow on.

    spark = session("reports")
    spark.read.format("mainstem")…

docs/internals/spark.md has each setting and its gain. Settings that are given win over ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.addresses import is_loopback, parse_address
from mainstem.errors import ConfigError, MachineError
from mainstem.spark.startup import class_archive, environment, local_files
from mainstem.spark.startup.java import find_java
from mainstem.spark.startup.java_classes import first_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = Path(__file__).with_name("log4j2.properties")
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # counting bytes row by row costs more than writing them; records are bounded by the log already
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.adaptive.enabled": "false",
}
_STREAMING = "org.apache.spark.sql.execution.streaming"
# The first is where Spark 4.1 and later have it.
_FILE_MANAGERS = tuple(f"{_STREAMING}{part}.FileSystemBasedCheckpointFileManager" for part in (".checkpointing", ""))
# Spark plans a query by recursion, and code that is not optimized yet takes larger frames: the default of 1 MB was seen
# to overflow in a query's first micro-batch on a busy machine.
_JAVA_STACK = "-Xss4m"
# On two cores, a parallel collector takes processor time from the query. So does the optimizing compiler: a scan of
# millions of records gains by it, the short micro-batches of pipelines do not.
# With C1 alone Java reserves 48 MB for compiled code. Many pipelines fill that: then it removes some and has to compile
# that again. 240 MB is the default with both compilers.
_JAVA_FEW_CORES = ("-XX:+UseSerialGC",)
_JAVA_FEW_CORES_PIPELINES = (*_JAVA_FEW_CORES, "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
_FEW_CORES = 2


def session(app_name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A SparkSession that knows the format ``mainstem``; ``master`` is this machine by default.

    Where a session runs in this process already it is that one, as it is, with the settings that can still be changed.

    Raises MissingDependencyError when pyspark, a Java that fits, or what the workers' Python needs is not there;
    ConfigError for a master or a setting that cannot be; UnavailableError when the master cannot be reached;
    MachineError when Spark's JVM does not start.
    """
    return _session(app_name, master, settings or {}, is_for_pipelines=False)


def pipelines_session(
    app_name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """As ``session``, for the process of an App's pipelines: on few cores, Java compiles for short micro-batches."""
    return _session(app_name, master, settings or {}, is_for_pipelines=True)


def register(spark: SparkSession) -> SparkSession:
    """Register the format ``mainstem`` in a session that you made. No setting of it changes.

    On one machine its Python processes are forked from then on, where they would be this Python: a query starts at
    least two. Raises MissingDependencyError when the workers' Python lacks something.
    """
    from mainstem.spark.source import register_source

    context = spark.sparkContext
    if environment.is_local(str(context.master)):
        # Spark's default is the first python3 on PATH, which may not have Mainstem.
        given = context.pythonExec if "PYSPARK_PYTHON" in os.environ else sys.executable
        context.pythonExec = environment.local_python(given)
    register_source(spark)
    return spark


def _session(app_name: str, master: str | None, settings: Mapping[str, str], *, is_for_pipelines: bool) -> SparkSession:
    environment.require_pyspark()
    from pyspark import SparkContext

    from mainstem.spark.source import register_source

    if SparkContext._active_spark_context is not None:
        return register(_running(master, settings))
    master = master or f"local[{os.cpu_count() or 1}]"
    spark = _started(app_name, master, settings, is_for_pipelines=is_for_pipelines)
    register_source(spark)
    return spark


def _started(app_name: str, master: str, settings: Mapping[str, str], *, is_for_pipelines: bool) -> SparkSession:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    environment.prepare(master)
    builder = SparkSession.builder.appName(app_name).master(master)
    defaults = {**default_settings(master, is_for_pipelines=is_for_pipelines), **environment.worker_sockets(master)}
    try:
        for name, value in {**defaults, **local_files.offer(master), **settings}.items():
            builder = builder.config(name, value)
        try:
            return builder.getOrCreate()
        finally:
            local_files.withdraw()
    except (PySparkRuntimeError, Py4JError) as error:
        said = next((line for line in str(error).splitlines() if "Exception: " in line), str(error).split("\n")[0])
        raise MachineError(f"Spark did not start at {master}; what it said is above, at last: {said}") from error


def _running(master: str | None, settings: Mapping[str, str]) -> SparkSession:
    """The session that runs already, if it is what is asked for."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    context = spark.sparkContext
    if master not in (None, context.master):
        raise ConfigError(
            f"a Spark session runs in this process already, at {context.master}; end it with .stop() before you ask "
            f"for one at {master}, or ask for no master"
        )
    fixed = [name for name in settings if not spark.conf.isModifiable(name)]
    other = sorted(name for name in fixed if spark.conf.get(name, None) != settings[name])
    if other:
        raise ConfigError(
            f"a Spark session runs in this process already, and {', '.join(other)} can only be set before it starts; "
            "end it with .stop() first"
        )
    for name in settings.keys() - set(fixed):
        spark.conf.set(name, settings[name])
    return spark


def default_settings(master: str, *, is_for_pipelines: bool = False) -> dict[str, str]:
    """Our settings of Spark for this master. Raises MissingDependencyError without a Java."""
    java_options = [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", _JAVA_STACK]
    if not environment.is_local(master):
        return {**_EVERYWHERE, **_driver_place(master), "spark.driver.extraJavaOptions": " ".join(java_options)}
    file_manager = first_class(*_FILE_MANAGERS)
    cores = os.cpu_count() or 1
    few_cores = _JAVA_FEW_CORES_PIPELINES if is_for_pipelines else _JAVA_FEW_CORES
    java_options += few_cores if cores <= _FEW_CORES else ("-XX:+UseParallelGC",)
    java_options += class_archive.java_options(find_java())
    return {
        **_EVERYWHERE,
        **_LOCAL,
        **({} if file_manager is None else {"spark.sql.streaming.checkpointFileManagerClass": file_manager}),
        "spark.sql.shuffle.partitions": str(min(cores, 8)),
        "spark.driver.extraJavaOptions": " ".join(java_options),
    }


def _driver_place(master: str) -> dict[str, str]:
    """Where a cluster's workers find the driver: Spark's own choice, but for a cluster that is on loopback alone."""
    addresses = master.removeprefix("spark://").split(",")
    if not master.startswith("spark://") or not all(is_loopback(parse_address(text).host) for text in addresses):
        return {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
