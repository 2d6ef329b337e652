"""Looks for Java classes in the jars of the installed Spark, before its JVM runs: classes move between versions."""

from __future__ import annotations

import importlib.util
import mmap
import os
from pathlib import Path


def first_class(*names: str) -> str | None:
    """The first of these classes that Spark's SQL jar has; None when it has none of them, or is not found.

    The table at a jar's end holds the names of its files as they are. A search that finds one takes 2 ms.
    """
    home = os.environ.get("SPARK_HOME") or _pyspark()
    if home is None:
        return None
    for jar in sorted((Path(home) / "jars").glob("spark-sql_2*.jar")):
        with jar.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for name in names:
                if content.rfind(f"{name.replace('.', '/')}.class".encode()) >= 0:
                    return name
    return None


def _pyspark() -> str | None:
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else str(Path(found.origin).parent)
