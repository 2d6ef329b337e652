"""Spark's own Kafka connector, for tests and benchmarks only: the peer of our data source.

It comes for one version of Spark, which need not be ours. So programs that use it run in processes of their own, with
that version of PySpark in front of the checkout's packages, and with our sources behind it: both connectors in one
session. PySpark comes through pip, the jars through Maven (``tests/support/spark_sql_kafka/pom.xml``), into ``.cache/``
of the checkout, once, which takes minutes. The product never needs them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.apache_kafka import JARS, KafkaUnavailableError, fetch_jars

SPARK_VERSION = "4.2.0"
_CHECKOUT = Path(__file__).resolve().parents[2]
_POM = Path(__file__).with_name("spark_sql_kafka") / "pom.xml"
_NAME = f"spark-sql-kafka-{SPARK_VERSION}"


@dataclass(frozen=True, slots=True)
class SparkKafka:
    """PySpark 4.2 with spark-sql-kafka and spark-avro.

    ``python`` is on the way of imports, ``jars`` on the driver's class path.
    """

    python: Path
    jars: Path

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a program that uses both connectors: ``python -c`` or a file of the checkout."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        paths = (self.python, _CHECKOUT / "src", _CHECKOUT)
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "SPARK_HOME": str(self.python / "pyspark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {self.jars}/* pyspark-shell",
            **more,
        }

    def run(
        self, *arguments: str, timeout_s: float = 240, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python ARGUMENTS…`` there to its end; its exit code and output are the caller's to judge."""
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(**(environment or {})),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def ensure_spark_kafka(timeout_s: int = 900) -> SparkKafka:
    """The peer's environment, made at the first call.

    Raises:
        KafkaUnavailableError: with the reason, when it cannot be made on this machine.
    """
    home = JARS.parent / _NAME
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with (JARS.parent / f"{_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests may want it at once
        jars = fetch_jars(_POM, f"{_NAME}/jars-with-avro", timeout_s)
        python = home / "python"
        if not (python / "pyspark").is_dir():
            _install(python, timeout_s)
    return SparkKafka(python, jars)


def _install(target: Path, timeout_s: int) -> None:
    """PySpark alone: what it needs is in our own environment."""
    unfinished = target.with_name("python.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(unfinished)]
    done = subprocess.run(
        [*argv, f"pyspark=={SPARK_VERSION}"], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        raise KafkaUnavailableError(f"pip exited with {done.returncode}: {done.stderr[-2000:]}")
    unfinished.rename(target)
