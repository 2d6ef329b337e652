"""What holds for every test. Property tests have no deadline, since a busy machine is no defect.

The JVMs of Spark compile with C1 alone in tests. They live for seconds: C2 would take a third of their processor time,
and what it compiles would hardly run. Spark reads the option from ``SPARK_SUBMIT_OPTS``.
"""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = (
    "tests.support.tiers",
    "tests.support.sharing",
    "tests.support.browser",
    "tests.support.postgres",
    "tests.support.mariadb",
)

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("house")
