"""The brokers that are measured, each as a process: Mainstem as it is installed, Apache Kafka as it comes.

Kafka runs with what its own start script gives it: a heap of 1 GiB, G1, all of the compiler; and with its own default
that leaves syncing to the page cache. Mainstem runs with its own default, which syncs before it acknowledges.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Protocol

from tests.broker.harness import child_environment
from tests.support.apache_kafka import ensure_jars, run_tool
from tests.support.ports import free_port

START_S_MAX = 90.0
_TICKS = os.sysconf("SC_CLK_TCK")
_KAFKA_JVM = ["-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]


class BrokerUnderTest(Protocol):
    """A broker in a directory of its own; ``spawn`` returns at once, ``start`` when it accepts connections."""

    name: str
    bootstrap: str

    def spawn(self) -> None: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    @property
    def pid(self) -> int: ...


class Process:
    """What both share: a child process, its port and its directory."""

    name = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def argv(self) -> list[str]:
        raise NotImplementedError

    def spawn(self) -> None:
        with (self.directory / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                self.argv(), stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=child_environment()
            )

    def start(self) -> None:
        self.spawn()
        deadline_s = time.monotonic() + START_S_MAX
        while not is_listening(self.port):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"{self.name} did not start; see {self.directory / 'output.log'}")
            time.sleep(0.002)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process = None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)
        shutil.rmtree(self.directory, ignore_errors=True)


class Mainstem(Process):
    """The log process alone."""

    name = "Mainstem"

    def argv(self) -> list[str]:
        data = str(self.directory / "data")
        return [sys.executable, "-m", "mainstem.broker.process", "--data", data, "--listen", self.bootstrap]


class MainstemServe(Mainstem):
    """``mainstem serve --no-http``: the command, which starts and watches the log process."""

    def argv(self) -> list[str]:
        data = str(self.directory / "data")
        where = ["--data", data, "--listen", self.bootstrap]
        return [sys.executable, "-m", "mainstem.cli.start", "serve", "--no-http", *where]


class ApacheKafka(Process):
    """One node with both roles, formatted at creation: that is not part of its start."""

    name = "Apache Kafka"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        controller = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(directory / "logs"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        self._properties = directory / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = uuid.uuid4().hex[:22]
        done = run_tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))
        if done.returncode != 0:
            raise RuntimeError(f"kafka-storage format: {done.stdout}{done.stderr}")

    def argv(self) -> list[str]:
        return ["java", *_KAFKA_JVM, "-cp", f"{ensure_jars()}/*", "kafka.Kafka", str(self._properties)]


def is_listening(port: int) -> bool:
    """Whether something accepts connections on this port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def cpu_s(pid: int) -> float:
    """The processor time that a process has used, all threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mb(pid: int) -> float:
    """The memory that a process has for itself, without the pages of files that it has mapped, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return int(kilobytes) / 1000
