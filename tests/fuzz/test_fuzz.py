"""Every target is fuzzed for a while, and finds nothing. ``MAINSTEM_FUZZ_S`` says for how long (a second each)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker.harness import child_environment
from tests.fuzz.targets import TARGETS, seeds

SECONDS = int(os.environ.get("MAINSTEM_FUZZ_S", "1"))
ALARM_S = 60
"""The longest until the fuzzer has found what is wrong in ``alarm``."""
TIMEOUT_S = len(TARGETS) * (SECONDS + 100) + ALARM_S + 200


class Fuzzed(NamedTuple):
    """Where the files of each target are, and its exit code."""

    place: Path
    codes: dict[str, int]

    def said(self, name: str) -> str:
        return (self.place / name / "said").read_text(errors="replace")


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Fuzzed:
    """All targets, fuzzed by one program."""
    pytest.importorskip("atheris", reason="atheris is made for Linux on x86-64")
    place = tmp_path_factory.mktemp("fuzz")
    targets = [f"{name}={SECONDS}" for name in sorted(TARGETS)]
    # libFuzzer's bound counts the greatest memory since the fork, that of this process before its exec included. So the
    # program is the child of a shell, which is small.
    argv = ["/bin/sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-m", "tests.fuzz.run", str(place), *targets]
    done = subprocess.run(
        [*argv, f"alarm={ALARM_S}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S - 60,
        check=False,
        env=child_environment(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    codes = dict(line.split() for line in done.stdout.splitlines())
    return Fuzzed(place, {name: int(code) for name, code in codes.items()})


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_what_the_fuzzer_begins_with_is_handled(name: str) -> None:
    for data in seeds(name):
        TARGETS[name](data)


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_nothing_is_found_in_a_while(fuzzed: Fuzzed, name: str) -> None:
    assert fuzzed.codes[name] == 0, fuzzed.said(name)[-4000:]
    assert "Done" in fuzzed.said(name)


@pytest.mark.timeout(TIMEOUT_S)
def test_what_is_wrong_is_found_and_kept(fuzzed: Fuzzed) -> None:
    assert fuzzed.codes["alarm"] != 0
    assert [file.read_bytes()[:2] for file in (fuzzed.place / "alarm").glob("crash-*")] == [b"\x7f\x03"]
