"""A standalone Spark cluster out of the PySpark package: a master and its workers, as processes on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pyspark

from mainstem.spark.startup.java import find_java
from tests.support.ports import free_port

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 180
_STOP_TIMEOUT_S = 20
_DAEMON = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false",
}
_DEFAULTS = """
spark.executor.memory        700m
spark.driver.memory          1g
spark.driver.host            127.0.0.1
spark.driver.bindAddress     127.0.0.1
spark.ui.enabled             false
spark.sql.shuffle.partitions 4
"""


class SparkCluster:
    """A context manager. ``url`` is the master's; ``environment`` is what a driver needs to use the cluster."""

    def __init__(self, workers: int = 2) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        self._port = free_port()
        self.url = f"spark://{_HOST}:{self._port}"
        self._worker_count = workers
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        (self.directory / "conf").mkdir()
        (self.directory / "conf" / "spark-defaults.conf").write_text(_DEFAULTS)
        self.environment = {"SPARK_CONF_DIR": str(self.directory / "conf"), "SPARK_LOCAL_IP": _HOST}

    def start(self) -> SparkCluster:
        """Start all processes, and return when the master knows all workers."""
        self._master = self._run("master", "master.Master", "--port", str(self._port))
        for number in range(self._worker_count):
            work = self.directory / f"work-{number}"
            argv = ["--cores", "1", "--memory", "1g", "--work-dir", str(work), "--port", "0", self.url]
            self._workers.append(self._run(f"worker-{number}", "worker.Worker", *argv))
        self._wait_for_workers()
        return self

    def kill_worker(self, number: int) -> None:
        """SIGKILL. Its executors notice that it is gone, and end."""
        self._workers[number].kill()
        self._workers[number].wait(_STOP_TIMEOUT_S)

    def printed(self) -> str:
        """The ends of what all processes have printed, executors included."""
        files = [*self.directory.glob("*.log"), *self.directory.glob("work-*/*/*/stderr")]
        return "".join(f"{path.relative_to(self.directory)}:\n{path.read_text()[-3000:]}\n" for path in files)

    def _run(self, name: str, class_name: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        argv = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}", "--host", _HOST]
        argv += ["--webui-port", str(free_port()), *arguments]
        environment = {**os.environ, **self.environment, **_DAEMON}
        environment |= {"SPARK_HOME": str(home), "JAVA_HOME": str(find_java().home)}
        with self._output(name).open("ab") as output:
            return subprocess.Popen(
                argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment, cwd=self.directory
            )

    def _output(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            said = [self._output(f"worker-{number}").read_text() for number in range(self._worker_count)]
            if all("Successfully registered with master" in text for text in said):
                return
            processes = [self._master, *self._workers]
            if time.monotonic() > deadline or any(p is not None and p.poll() is not None for p in processes):
                raise RuntimeError(f"the Spark cluster did not start: {self.printed()}")
            time.sleep(0.1)  # nothing announces it but its output: poll for it

    def stop(self) -> None:
        """End all processes and remove their files."""
        processes = [process for process in (*self._workers, self._master) if process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_TIMEOUT_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> SparkCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
