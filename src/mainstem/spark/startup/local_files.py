"""Spark writes local files without a process for each: ``LocalFiles.java``, and ``local-files.jar`` made of it.

A checkpoint file takes 0.3 ms instead of 6, and each micro-batch writes two, and one more for each partition of a
state (docs/decisions/0050-local-files-of-spark.md). Only a JVM that starts with the jar can use it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mainstem.spark.startup import class_archive

JAR = Path(__file__).with_name("local-files.jar")
CLASS = "mainstem.spark.LocalFiles"
_CLASS_PATH = "SPARK_DIST_CLASSPATH"
"""Spark's launcher adds what it names behind its own jars, so that a class archive still fits."""


def settings(master: str) -> dict[str, str]:
    """The setting for a session at ``master`` whose JVM has the class; the class path of a JVM that will start here.

    Empty where the JVM cannot have the class: on a cluster, whose workers have no such jar; in a JVM that ran before;
    where ``spark-env.sh`` may set another class path.
    """
    is_one_jvm = master.startswith("local") and not master.startswith("local-cluster")
    if not is_one_jvm or sys.platform == "win32" or class_archive.is_built_here() or not _is_on_class_path():
        return {}
    return {"spark.hadoop.fs.file.impl": CLASS}


def _is_on_class_path() -> bool:
    """Whether the JVM has the class, or will have it when PySpark starts it."""
    from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
    from pyspark import SparkContext

    if SparkContext._jvm is not None:
        return isinstance(SparkContext._jvm.mainstem.spark.LocalFiles, JavaClass)
    if "PYSPARK_GATEWAY_PORT" in os.environ or _spark_env().is_file() or os.pathsep in str(JAR):
        return False
    given = [path for path in os.environ.get(_CLASS_PATH, "").split(os.pathsep) if path]
    if str(JAR) not in given:
        os.environ[_CLASS_PATH] = os.pathsep.join([*given, str(JAR)])
    return True


def _spark_env() -> Path:
    """The script that Spark's launcher runs before it reads the environment."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-env.sh")
