"""Fuzz one target until its time is over: ``python -m tests.fuzz.run TARGET CORPUS [libFuzzer's options]``.

Ends with 0 when nothing was found. What was found is written beside the corpus, and to standard error with its trace.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mainstem"]):
    from tests.fuzz.targets import TARGETS, alarm, seeds


def main() -> None:
    name, corpus = sys.argv[1], Path(sys.argv[2])
    corpus.mkdir(parents=True, exist_ok=True)
    target = TARGETS.get(name, alarm)
    for number, data in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(data)
        target(data)  # what is compiled at first use is compiled before the fuzzer's clock runs
    atheris.Setup([sys.argv[0], *sys.argv[3:], str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
