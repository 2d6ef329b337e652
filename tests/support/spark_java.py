"""The options of a JVM of Spark that lives for seconds and that no session of ours starts."""

from __future__ import annotations

import os

from mainstem.spark.startup import class_archive
from mainstem.spark.startup.java import find_java


def short_lived_jvm() -> dict[str, str]:
    """The variable by which Spark's scripts and PySpark's sessions read them: the serial collector, and the archive.

    Not for a program that calls our ``session``, which chooses a collector itself: Java refuses two.
    """
    given = os.environ["SPARK_SUBMIT_OPTS"]
    return {"SPARK_SUBMIT_OPTS": " ".join([given, "-XX:+UseSerialGC", *class_archive.java_options(find_java())])}
