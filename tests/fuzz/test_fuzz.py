"""Every target is fuzzed for a while, and finds nothing. ``MAINSTEM_FUZZ_S`` says for how long (2 seconds each)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.harness import child_environment
from tests.fuzz.targets import TARGETS, seeds

SECONDS = int(os.environ.get("MAINSTEM_FUZZ_S", "2"))
MEMORY_MB = 1024


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_what_the_fuzzer_begins_with_is_handled(name: str) -> None:
    for data in seeds(name):
        TARGETS[name](data)


def fuzz(name: str, place: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("atheris", reason="atheris is made for Linux on x86-64")
    argv = [sys.executable, "-m", "tests.fuzz.run", name, str(place / "corpus"), f"-max_total_time={seconds}"]
    argv += [f"-rss_limit_mb={MEMORY_MB}", "-timeout=60", "-max_len=4096", f"-artifact_prefix={place}/", "-seed=1"]
    # libFuzzer's bound counts the greatest memory since the fork, that of this process before its exec included. So the
    # fuzzer is the child of a shell, which is small.
    argv = ["/bin/sh", "-c", '"$@"; exit $?', "sh", *argv]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=seconds + 600, check=False, env=child_environment()
    )


@pytest.mark.timeout(SECONDS + 660)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_nothing_is_found_in_a_while(name: str, tmp_path: Path) -> None:
    done = fuzz(name, tmp_path, SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done" in done.stderr


def test_what_is_wrong_is_found_and_kept(tmp_path: Path) -> None:
    done = fuzz("alarm", tmp_path, 60)
    assert done.returncode != 0
    assert [file.read_bytes()[:2] for file in tmp_path.glob("crash-*")] == [b"\x7f\x03"]
