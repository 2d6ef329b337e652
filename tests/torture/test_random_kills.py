"""A short round of the long proof: three random kills. ``MAINSTEM_TORTURE_SEED`` and ``…_KILLS`` choose others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker.harness import LogProcess
from tests.torture.run import Round
from tests.torture.torture import Torture, create_topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
SEED = int(os.environ.get("MAINSTEM_TORTURE_SEED", "1"))
KILLS = int(os.environ.get("MAINSTEM_TORTURE_KILLS", "3"))


def test_kills_at_random_times_lose_nothing_and_make_nothing_twice(tmp_path: Path) -> None:
    drawn = Round(SEED, 1, KILLS)
    with LogProcess(tmp_path / "data") as log, Torture(tmp_path / "torture", log) as torture:
        create_topics(log.bootstrap, __mainstem_progress=1)
        verdict = drawn.run(torture, log.bootstrap, tmp_path)
    print(f"seed {SEED}, {drawn.kind}, {dict(torture.counts)}: {verdict}")  # noqa: T201 - for who looks into a failure
    assert verdict.faults == ()
    assert sum(count for name, count in torture.counts.items() if name.startswith("killed ")) >= KILLS
