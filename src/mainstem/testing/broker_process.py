"""A broker in a process of its own, which can be killed like any other: for tests of what SIGKILL leaves behind.

The same interface as ``EmbeddedBroker``, and ``kill``. The process ends with the test's own, whatever happens to that.
One thread at a time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from mainstem.errors import MachineError

_START_S: Final = 30.0
_STOP_S: Final = 30.0
_READY: Final = "ready: kafka "


class BrokerProcess:
    """A broker process at ``bootstrap``, from ``start`` to ``stop`` or ``kill``; a context manager."""

    def __init__(
        self, directory: Path | None = None, *, settings: Mapping[str, str] | None = None, port: int = 0
    ) -> None:
        """Name a broker; nothing runs before ``start``.

        Args:
            directory: Where its data is. Without it, it makes one, and removes it at the end.
            settings: Settings of the broker, by Kafka's names.
            port: Its port; 0 is a free one.
        """
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="mainstem-test-"))
        self.port = port
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        """The broker's address, for any Kafka client."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process's id; 0 when there is none."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> BrokerProcess:
        """Start it, and return when it accepts connections.

        Raises:
            MachineError: It ended, or was not ready in time; the error has what it printed instead.
        """
        argv = [sys.executable, "-m", "mainstem.broker.process", "--data", str(self.directory)]
        argv += ["--listen", self.bootstrap, "--stop-with-parent"]
        argv += [word for name, value in self._settings.items() for word in ("--set", f"{name}={value}")]
        with tempfile.TemporaryFile("w+") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            line = self._first_line()
            if not line.startswith(_READY):
                self.kill()
                errors.seek(0)
                said = (line + errors.read()).strip() or f"it said nothing within {_START_S:g} s"
                raise MachineError(f"the broker did not start: {said}")
        self.port = int(line.removeprefix(_READY).split()[0].rpartition(":")[2])
        return self

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is closed.

        Examples:
            >>> from mainstem.testing import BrokerProcess
            >>> with BrokerProcess() as broker, ms.Log(broker.bootstrap) as log:
            ...     position = log.append(log.create_topic("flights").name, "UA-1545")
            ...     broker.kill()
            ...     broker.restart()
            ...     print(next(iter(log.read("flights"))).value)
            b'UA-1545'
        """
        if self._process is not None:
            self._process.kill()
            self._reap()

    def stop(self) -> None:
        """Stop it cleanly, and remove its directory if it was made here. Stopping twice does nothing."""
        self._terminate()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """Stop it cleanly if it runs, and start it again on the same directory and port."""
        self._terminate()
        self.start()

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _first_line(self) -> str:
        """The first line that the process prints; empty when it ends or says nothing in time."""
        assert self._process is not None, "called by start"
        lines: list[str] = []
        output = self._process.stdout
        assert output is not None, "its output is a pipe"
        reader = threading.Thread(target=lambda: lines.append(output.readline()), daemon=True)
        reader.start()
        reader.join(_START_S)
        return lines[0] if lines else ""

    def _terminate(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None, "there is a process to wait for"
        self._process.wait(_STOP_S)
        for stream in (self._process.stdin, self._process.stdout):
            _close(stream)
        self._process = None


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        stream.close()
