"""What holds for every test. Property tests have no deadline, since a busy machine is no defect."""

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

settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("house")
