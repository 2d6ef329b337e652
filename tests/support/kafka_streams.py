"""A small Kafka Streams program with exactly-once v2, as a process; its jars come through Maven, once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.apache_kafka import KAFKA_VERSION, fetch_jars
from tests.support.foreign_programs import compiled_argv

HOME = Path(__file__).with_name("streams")


def streams_jars() -> Path:
    """The directory of Kafka Streams' jars. Raises KafkaUnavailableError when they cannot be fetched."""
    return fetch_jars(HOME / "pom.xml", f"kafka-streams-{KAFKA_VERSION}")


class CountByKey:
    """Counts the records of each key of ``source`` into ``target``, from ``start`` to ``stop`` or ``kill``."""

    def __init__(
        self,
        bootstrap: str,
        application: str,
        source: str,
        target: str,
        state: Path,
        protocol: str = "classic",
        session_ms: int = 6000,
    ) -> None:
        """``protocol``: of its group, ``classic`` or ``streams``, where the broker says how long a session is."""
        self._arguments = [bootstrap, application, source, target, str(state), protocol, str(session_ms)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = compiled_argv(HOME / "CountByKey.java", streams_jars())
        self._process = subprocess.Popen([*argv, *self._arguments], stdin=subprocess.PIPE)

    def stop(self) -> None:
        """End it cleanly: its standard input ends."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None
