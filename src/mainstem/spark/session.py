"""Spark sessions that work at once: Java found or a clear error, this Python in the workers, quiet logs, Arrow on.

    spark = session("reports")
    spark.read.format("mainstem")…

On one machine (a ``local`` master) a start in seconds and short micro-batches matter more than the last bit of
throughput: see docs/internals/spark.md for each setting and what it brought. Settings that are given win over ours.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import MissingDependencyError
from mainstem.spark import class_archive
from mainstem.spark.fork_server import ForkServer
from mainstem.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = Path(__file__).with_name("log4j2.properties")
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # counting bytes row by row costs more than writing them; records are bounded by the log already
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
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
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# Spark plans a query by recursion, and code that is not optimized yet takes larger frames: the default of 1 MB was seen
# to overflow in a query's first micro-batch on a busy machine.
_JAVA_STACK = "-Xss4m"
# With two cores, what the optimizing compiler and a parallel collector take is taken from the query.
_JAVA_FEW_CORES = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_FEW_CORES = 2


def session(app_name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A SparkSession that knows the format ``mainstem``; ``master`` is this machine by default.

    Raises MissingDependencyError when pyspark or a Java that fits is not there.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError("Spark is not installed; run: pip install 'mainstem[spark]'") from error
    from mainstem.spark.source import MainstemDataSource

    chosen = master or f"local[{os.cpu_count() or 1}]"
    _prepare_environment(chosen)
    builder = SparkSession.builder.appName(app_name).master(chosen)
    for name, value in {**default_settings(chosen), **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(MainstemDataSource)
    return spark


def default_settings(master: str) -> dict[str, str]:
    """Our settings of Spark for this master."""
    java_options = [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", _JAVA_STACK]
    if not master.startswith("local"):
        return {**_EVERYWHERE, "spark.driver.extraJavaOptions": " ".join(java_options)}
    cores = os.cpu_count() or 1
    java_options += _JAVA_FEW_CORES if cores <= _FEW_CORES else ("-XX:+UseParallelGC",)
    java_options += class_archive.java_options(find_java())
    return {
        **_EVERYWHERE,
        **_LOCAL,
        "spark.sql.shuffle.partitions": str(min(cores, 8)),
        "spark.driver.extraJavaOptions": " ".join(java_options),
    }


def _prepare_environment(master: str) -> None:
    """What Spark reads from the environment when it starts; it starts once in a process."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    if "PYSPARK_PYTHON" in os.environ:
        return
    if not master.startswith("local") or sys.platform == "win32":
        os.environ["PYSPARK_PYTHON"] = sys.executable
        return
    server = ForkServer()
    os.environ["PYSPARK_PYTHON"] = str(server.python)
    atexit.register(server.stop)
