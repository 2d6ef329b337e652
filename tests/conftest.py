"""What holds for every test. Property tests have no deadline, since a busy machine is no defect.

The JVMs of Spark compile with C1 alone in tests. They live for seconds: C2 would take a third of their processor time,
and what it compiles would hardly run. Spark reads the option from ``SPARK_SUBMIT_OPTS``. numpy starts no threads for
linear algebra, which nothing here needs: they spin for a while after each import.

What the collection of the tests makes stays: the garbage collector need not look through it, then or later.
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
    """Look for garbage from here on; also in the process that hands the tests out, which collects none itself."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Libraries whose objects are still there at the end would report leaks."""
    gc.unfreeze()
