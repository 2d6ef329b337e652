"""The sink's protocol without Spark: killed, stopped and woken up at its steps; and mutants of it, which are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.broker.harness import child_environment
from tests.support.kafka_or_skip import kafka_or_skip

SEED = int(os.environ.get("MAINSTEM_TORTURE_SEED", "1"))
HISTORIES = int(os.environ.get("MAINSTEM_TORTURE_HISTORIES", "2"))
_TIMEOUT_S = 220 + 30 * HISTORIES
# A mutant, the step at which the driver is killed, and what a reader sees of it.
MUTANTS = [
    ("undecided", "driver:ended-first", {"duplicate"}),
    ("ended-early", "driver:begun", {"duplicate"}),
    ("task-commits", "driver:begun", {"duplicate"}),
    ("unresolved", "driver:begun", {"lost", "open"}),
]


def histories(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", "tests.torture.seam", "--directory", str(directory), *arguments]
    done = subprocess.run(
        argv, env=child_environment(), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(_TIMEOUT_S + 30)
def test_whoever_dies_or_comes_back_late_each_record_is_there_once(tmp_path: Path) -> None:
    told = histories(tmp_path, "--seed", str(SEED), "--histories", str(HISTORIES))
    print(*told, sep="\n")  # noqa: T201 - the seeds, for who looks into a failure
    assert len(told) == HISTORIES
    assert sum(len(history["executed"]) for history in told) >= HISTORIES
    assert [(history["seed"], history["faults"]) for history in told if history["faults"]] == []


@pytest.mark.maven
@pytest.mark.timeout(_TIMEOUT_S + 30)
def test_on_apache_kafka_a_killed_task_and_a_killed_driver_leave_each_record_once(tmp_path: Path) -> None:
    steps = [f"--kill={step}" for step in ("task:prepared", "driver:decided")]
    with kafka_or_skip() as kafka:
        (history,) = histories(tmp_path, "--bootstrap", kafka.bootstrap, "--histories", "1", *steps)
    assert history["executed"] == ["self at task:prepared", "self at driver:decided"]
    assert history["faults"] == []


@pytest.mark.timeout(_TIMEOUT_S + 30)
@pytest.mark.parametrize(("mutant", "step", "kinds"), MUTANTS, ids=[mutant for mutant, _, _ in MUTANTS])
def test_a_sink_with_a_fault_built_in_is_found_out(tmp_path: Path, mutant: str, step: str, kinds: set[str]) -> None:
    (history,) = histories(tmp_path, "--histories", "1", "--mutant", mutant, "--kill", step)
    assert history["executed"] == [f"self at {step}"]
    assert {kind for kind, _ in history["faults"]} == kinds
