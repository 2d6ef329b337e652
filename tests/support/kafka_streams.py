"""A small Kafka Streams program with exactly-once v2, as a process; its jars come through Maven, once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.apache_kafka import KAFKA_VERSION, fetch_jars

HOME = Path(__file__).with_name("streams")


def streams_jars() -> Path:
    """The directory of Kafka Streams' jars. Raises KafkaUnavailableError when they cannot be fetched."""
    return fetch_jars(HOME / "pom.xml", f"kafka-streams-{KAFKA_VERSION}")


class CountByKey:
    """Counts the records of each key of ``source`` into ``target``, from ``start`` to ``stop`` or ``kill``."""

    def __init__(
        self, bootstrap: str, application: str, source: str, target: str, state: Path, protocol: str = "classic"
    ) -> None:
        """``protocol``: of its group, ``classic`` or ``streams``."""
        self._arguments = [bootstrap, application, source, target, str(state), protocol]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{streams_jars()}/*",
            str(HOME / "CountByKey.java"),
        ]
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
