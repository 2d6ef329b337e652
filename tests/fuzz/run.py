"""Fuzz targets, one after the other: ``python -m tests.fuzz.run DIRECTORY TARGET=SECONDS …``.

Each target runs in a fork of this process: to instrument the product takes longer than a short run. The files of a
target are in ``DIRECTORY/TARGET``: the corpus, what it wrote (``said``), and inputs that are wrong (``crash-…``). One
line for each target, its name and its exit code, goes to standard output; 0 means that nothing was found. A target that
hangs is killed.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path
from typing import Final, NoReturn

import atheris

with atheris.instrument_imports(include=["mainstem"]):
    from tests.fuzz.targets import TARGETS, alarm, seeds

_MEMORY_MB: Final = 1024
MORE_S: Final = 90
"""How long a target may take beside its time: for what it begins with, and for its last input."""


def main() -> None:
    place = Path(sys.argv[1])
    for text in sys.argv[2:]:
        name, _, seconds = text.partition("=")
        child = os.fork()
        if not child:
            _fuzz(name, place / name, int(seconds))
        ended = os.pidfd_open(child)  # no alarm here: the fuzzer in the fork needs that signal
        if not select.select([ended], [], [], int(seconds) + MORE_S)[0]:
            os.kill(child, signal.SIGKILL)
        os.close(ended)
        _, status = os.waitpid(child, 0)
        print(name, os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - it is this program's answer


def _fuzz(name: str, place: Path, seconds: int) -> NoReturn:
    """Fuzz one target, and end this process."""
    corpus = place / "corpus"
    corpus.mkdir(parents=True)
    said = os.open(place / "said", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    target = TARGETS.get(name, alarm)
    for number, data in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(data)
        target(data)  # what is compiled at first use is compiled before the fuzzer's clock runs
    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={_MEMORY_MB}", "-timeout=60", "-max_len=4096", "-seed=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={place}/", str(corpus)], target)
    atheris.Fuzz()
    raise AssertionError("the fuzzer ends its process")


if __name__ == "__main__":
    main()
