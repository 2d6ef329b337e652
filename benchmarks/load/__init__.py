"""A load generator in C over the Python client's own librdkafka: ``load.c`` says what it measures."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import confluent_kafka

_SOURCE = Path(__file__).with_name("load.c")
_TIMEOUT_S = 180


class LoadGenerator:
    """The compiled generator, in a directory of the caller. Raises RuntimeError without a C compiler."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise RuntimeError("the rates are measured by a program in C: install a C compiler (Debian: gcc)")
        package = Path(confluent_kafka.__file__).parent
        [library] = (package.parent / "confluent_kafka.libs").glob("librdkafka*.so*")
        self._program = directory / "load"
        argv = [compiler, "-O2", "-o", str(self._program), str(_SOURCE), str(library), f"-Wl,-rpath,{library.parent}"]
        subprocess.run(argv, check=True, timeout=_TIMEOUT_S)

    def produce(self, bootstrap: str, topic: str, records: int, record_bytes: int) -> float:
        """Records a second, each acknowledged. Raises RuntimeError with the client's reason."""
        return records / self._run("produce", bootstrap, topic, str(records), str(record_bytes))

    def consume(self, bootstrap: str, topic: str, records: int) -> float:
        """Records a second from the beginning of partition 0. Raises RuntimeError with the client's reason."""
        return records / self._run("consume", bootstrap, topic, str(records))

    def _run(self, *words: str) -> float:
        done = subprocess.run([str(self._program), *words], capture_output=True, text=True, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return float(done.stdout)
