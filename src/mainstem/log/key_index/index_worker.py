"""Building a key index in a process of its own: ``python -m mainstem.log.key_index.index_worker PLAN TARGET``.

The worker puts the entries of its plan into a store of its own, which sorts them in bounded memory, and writes them,
in order, to files that the log process takes over. It never touches the log process's store. Its last line on standard
error says what went wrong, and it ends when the process that started it does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path, PurePath
from typing import Final, NamedTuple, Protocol

from mainstem.errors import MainstemError, StorageError
from mainstem.log.files.disk import OsDisk
from mainstem.log.key_index.index_build import plan_entries
from mainstem.log.key_index.key_index import BuildPlan
from mainstem.log.key_index.key_store import RocksKeyStore, write_sorted_files

_CHUNK_ENTRIES: Final = 20_000
_FILE_BYTES_MAX: Final = 64 << 20
_SORTING: Final = "sorting"
_NICENESS: Final = 5
_AFTER_ALL: Final = b"\xff"


class BuildResult(NamedTuple):
    """The files that a build made, or why it made none."""

    files: list[PurePath]
    error: str | None = None


class RunningBuild(Protocol):
    """A build under way."""

    def poll(self) -> BuildResult | None:
        """How it ended; None while it has not."""
        ...

    def stop(self) -> None:
        """End it now."""
        ...


class BuildProcess:
    """A build in a child process."""

    def __init__(self, plan: BuildPlan, path: PurePath) -> None:
        """Its files go into ``path``. Raises StorageError when it cannot be started."""
        target = Path(path)
        try:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, encode_plan(plan), str(target)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise StorageError(f"a build of the key index cannot be started: {error}") from error
        self._target = target

    def poll(self) -> BuildResult | None:
        code = self._process.poll()
        if code is None:
            return None
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            said = stderr.read().decode(errors="replace").strip().splitlines()
        if code != 0:
            return BuildResult([], said[-1] if said else f"the build ended with code {code}")
        return BuildResult(sorted(self._target.glob("*.sst")))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        shutil.rmtree(self._target, ignore_errors=True)


def encode_plan(plan: BuildPlan) -> str:
    """A plan as an argument of the worker."""
    return json.dumps([str(plan.directory), *plan[1:]])


def decode_plan(text: str) -> BuildPlan:
    """A plan as it was given to the worker."""
    directory, *numbers = json.loads(text)
    return BuildPlan(PurePath(directory), *numbers)


def build(plan: BuildPlan, target: Path) -> None:
    """Write the plan's files into ``target``. Raises StorageError, CorruptBatchError."""
    parent = os.getppid()
    sorting = RocksKeyStore(target / _SORTING, bulk=True)
    entries = plan_entries(OsDisk(), plan)
    while chunk := list(islice(entries, _CHUNK_ENTRIES)):
        if os.getppid() != parent:
            raise StorageError("the log process is gone")
        sorting.write(chunk)
    write_sorted_files(target, sorting.scan(b"", _AFTER_ALL), _FILE_BYTES_MAX)
    sorting.close()
    shutil.rmtree(target / _SORTING)


def main(arguments: list[str]) -> int:
    """The worker; its last line on standard error says what went wrong."""
    plan, target = decode_plan(arguments[0]), Path(arguments[1])
    os.nice(_NICENESS)
    try:
        build(plan, target)
    except MainstemError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
