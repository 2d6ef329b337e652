"""What holds for every test. Property tests have no deadline, since a busy machine is no defect.

The JVMs of Spark compile with C1 alone in tests. They live for seconds: C2 would take a third of their processor time,
and what it compiles would hardly run. Spark reads the option from ``SPARK_SUBMIT_OPTS``. numpy starts no threads for
linear algebra: the tests do not need them, and they spin for a while after each import.

The garbage collector is off while tests are collected, and skips the collected tests later: they live to the end.
"""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

pytest_plugins = (
    "tests.support.tiers",
    "tests.support.sharing",
    "tests.support.browser",
    "tests.support.postgres",
    "tests.support.mariadb",
)

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.disable()
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Turn the garbage collector on after collection. This hook also runs in xdist's controller."""
    gc.freeze()
    gc.set_threshold(20_000)  # with Python's 700 the collector takes 7 % of the time of the log's own tests
    gc.enable()


def pytest_sessionfinish() -> None:
    """Unfreeze: DuckDB reports objects that still exist at exit as leaked."""
    gc.unfreeze()
