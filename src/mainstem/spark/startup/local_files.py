"""Spark writes local files without a process for each: ``LocalFiles.java``, and ``local-files.jar`` made of it.

A checkpoint file takes 0.3 ms instead of 6.5, and each micro-batch writes two, and one more for each partition of a
state (docs/decisions/0050-local-files-of-spark.md). Only a JVM that starts with the jar can use it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mainstem.spark.startup import class_archive

JAR = Path(__file__).with_name("local-files.jar")
CLASS = "mainstem.spark.LocalFiles"
_SETTING = "spark.hadoop.fs.file.impl"
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
"""Spark's launcher adds the paths of this variable after Spark's own jars, so that a class archive still fits."""


def offer(master: str) -> dict[str, str]:
    """Put the jar on the class path of the JVM that will start here; returns the setting that names the class.

    It returns no setting where the JVM cannot have the class: on a cluster, whose workers lack the jar; in a JVM that
    started without it; where ``spark-env.sh`` may set another class path; on Windows.
    """
    others = [path for path in os.environ.get(_CLASS_PATH, "").split(os.pathsep) if path and path != str(JAR)]
    if class_archive.is_training():
        # Java refuses an archive when a jar of its class path has another time: an upgrade would change that.
        os.environ[_CLASS_PATH] = os.pathsep.join(others)
        return {}
    is_one_jvm = master.startswith("local") and not master.startswith("local-cluster")
    if not is_one_jvm or sys.platform == "win32" or not _has_class(others):
        return {}
    return {_SETTING: CLASS}


def withdraw() -> None:
    """Let the JVM forget the setting after a start: its next session may be at a cluster. This one keeps it."""
    from pyspark import SparkContext

    if SparkContext._jvm is None:
        return
    properties = SparkContext._jvm.java.lang.System
    if properties.getProperty(_SETTING) == CLASS:
        properties.clearProperty(_SETTING)


def _has_class(others: list[str]) -> bool:
    """Whether the JVM has the class, or gets it when PySpark starts it."""
    from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
    from pyspark import SparkContext

    if SparkContext._jvm is not None:
        return isinstance(SparkContext._jvm.mainstem.spark.LocalFiles, JavaClass)
    is_started_elsewhere = "PYSPARK_GATEWAY_PORT" in os.environ or _spark_env().is_file()
    if is_started_elsewhere or os.pathsep in str(JAR) or not JAR.is_file():
        return False
    os.environ[_CLASS_PATH] = os.pathsep.join([*others, str(JAR)])
    return True


def _spark_env() -> Path:
    """The script that Spark's launcher runs before it reads the environment."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"), "spark-env.sh")
