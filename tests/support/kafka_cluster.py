"""Three nodes of Apache Kafka (KRaft, combined roles) that replicate to each other; each can be killed by itself."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.apache_kafka import new_storage, new_uuid, tool_argv
from tests.support.ports import free_port

_START_TIMEOUT_S = 180
_STOP_TIMEOUT_S = 20
_HEAP_MB = 256


class KafkaCluster:
    """A context manager. Every topic has three replicas, of which two must have a record before it is acknowledged."""

    def __init__(self, nodes: int = 3) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        self._ports = {node: (free_port(), free_port()) for node in range(1, nodes + 1)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())

    def start(self) -> KafkaCluster:
        """Make the nodes' storage, start them, and return when all listen."""
        cluster = new_uuid()
        for node in self._ports:
            properties = self.directory / f"{node}.properties"
            properties.write_text(self._properties(node))
            new_storage(self.directory / f"logs-{node}", cluster=cluster, node=node)
        for node in self._ports:
            with (self.directory / f"{node}.log").open("ab") as output:
                argv = tool_argv("kafka.Kafka", str(self.directory / f"{node}.properties"), heap_mb=_HEAP_MB)
                self._processes[node] = subprocess.Popen(
                    argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=self.directory
                )
        self._wait_until_listening()
        return self

    def node_at(self, address: str) -> int:
        """The node that listens at ``HOST:PORT``."""
        return next(node for node, (port, _) in self._ports.items() if address.endswith(f":{port}"))

    def kill(self, node: int) -> None:
        """SIGKILL."""
        process = self._processes.pop(node)
        process.kill()
        process.wait(_STOP_TIMEOUT_S)

    def _properties(self, node: int) -> str:
        port, controller = self._ports[node]
        voters = ",".join(f"{number}@127.0.0.1:{quorum}" for number, (_, quorum) in self._ports.items())
        replicated = {"replication.factor": len(self._ports), "min.isr": 2}
        settings = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.directory / f"logs-{node}",
            "default.replication.factor": len(self._ports),
            "min.insync.replicas": 2,
            "offsets.topic.replication.factor": len(self._ports),
            "offsets.topic.num.partitions": 4,
            **{f"transaction.state.log.{name}": value for name, value in replicated.items()},
            "transaction.state.log.num.partitions": 4,
            **{f"share.coordinator.state.topic.{name}": value for name, value in replicated.items()},
            "group.initial.rebalance.delay.ms": 0,
            "broker.session.timeout.ms": 6000,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        for node, (port, _) in self._ports.items():
            while True:
                if self._processes[node].poll() is not None or time.monotonic() > deadline:
                    output = (self.directory / f"{node}.log").read_text()[-2000:]
                    self.stop()
                    raise RuntimeError(f"node {node} of Apache Kafka did not start: {output}")
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)  # nothing announces a foreign process's listening socket: poll for it

    def stop(self) -> None:
        """End all nodes and remove their files."""
        for process in self._processes.values():
            process.kill()  # three nodes that stop cleanly wait for each other
        for process in self._processes.values():
            process.wait(_STOP_TIMEOUT_S)
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> KafkaCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
