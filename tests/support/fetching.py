"""Fetch what tests need from Maven, PyPI and npm before they ask for it: ``python -m tests.support.fetching``. It also
makes the archive of Apache Kafka's classes.

``.ci/run`` starts it beside the checks, so that no test waits for a download. A test that comes first waits at a lock.
What cannot be fetched is named here, and skipped by its tests.
"""

from __future__ import annotations

import pytest

from tests.support.apache_kafka import ensure_class_archive, ensure_jars
from tests.support.debezium_engine import debezium_jars
from tests.support.foreign_programs import fetch_packages
from tests.support.kafka_streams import streams_jars
from tests.support.spark_kafka import ensure_spark_kafka

if __name__ == "__main__":
    for fetch in (ensure_jars, ensure_spark_kafka, debezium_jars, streams_jars, ensure_class_archive, fetch_packages):
        try:
            fetch()
        except (RuntimeError, OSError, pytest.skip.Exception) as error:
            print(f"not fetched: {error}")  # noqa: T201
