"""Apache Kafka itself, for tests and benchmarks only: the foreign broker, client and dump tool.

The jars come through Maven (``tests/support/kafka/pom.xml``) into ``.cache/`` of the checkout, once. The product never
needs them. Everything listens on loopback and every subprocess has a time limit.

Beside the jars lies an archive of their classes (``ensure_class_archive``). With it, and with the serial collector, a
broker takes half of the processor time to start and end. A JVM without the archive works, too. The storage that Kafka's
own tool has formatted once lies there as well: each new broker starts on a copy of it.
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.eventually import eventually
from tests.support.ports import free_port

KAFKA_VERSION = "4.3.1"
_CHECKOUT = Path(__file__).resolve().parents[2]
JARS = Path(os.environ.get("MAINSTEM_KAFKA_JARS", _CHECKOUT / ".cache" / f"kafka-{KAFKA_VERSION}"))
_POM = Path(__file__).with_name("kafka") / "pom.xml"
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Of JVMs that do not live long."""
_ARCHIVE = "classes.jsa"
_BOOTSTRAP = "bootstrap.checkpoint"
_NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_SHARING = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""Without the last two, a JVM writes to the output of a tool that it cannot use the archive."""


class KafkaUnavailableError(RuntimeError):
    """Apache Kafka's jars could not be had on this machine: no Java, no Maven, or no repository in reach."""


def ensure_jars(timeout_s: int = 600) -> Path:
    """The directory of Apache Kafka's jars, fetched through Maven at the first call.

    Raises:
        KafkaUnavailableError: with the reason, when they cannot be fetched.
    """
    return JARS if (JARS / ".complete").exists() else fetch_jars(_POM, JARS.name, timeout_s)


def has_kafka() -> bool:
    """Whether Apache Kafka's jars are there, or could be fetched now."""
    try:
        ensure_jars()
    except KafkaUnavailableError:
        return False
    return True


def fetch_jars(pom: Path, name: str, timeout_s: int = 600) -> Path:
    """The directory ``name``, beside that of Apache Kafka's jars, with the jars of a project.

    Raises:
        KafkaUnavailableError: with the reason, when they cannot be fetched.
    """
    jars = JARS.parent / name
    if (jars / ".complete").exists():
        return jars
    jars.mkdir(parents=True, exist_ok=True)
    with (jars / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes may want them at once
        if not (jars / ".complete").exists():
            _copy_jars(pom, jars, timeout_s)
    return jars


def _copy_jars(pom: Path, jars: Path, timeout_s: int) -> None:
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            raise KafkaUnavailableError(f"{command} is not on PATH")
    argv = ["mvn", "-q", "-B", "-f", str(pom), f"-Dkafka.version={KAFKA_VERSION}", "dependency:copy-dependencies"]
    argv += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(f"mvn exited with {done.returncode}: {done.stdout[-2000:]}")
    (jars / ".complete").touch()


def ensure_class_archive() -> None:
    """Make the archive of classes, if it is not there, by a broker that starts and ends.

    Raises:
        KafkaUnavailableError: with the reason, when there are no jars.
    """
    jars = ensure_jars()
    if (jars / _ARCHIVE).exists():
        return
    with tempfile.TemporaryDirectory(prefix="class-archive-", dir=jars) as directory:
        made = Path(directory) / _ARCHIVE
        kafka = ApacheKafka(java_options=(f"-XX:ArchiveClassesAtExit={made}",)).start()
        process = kafka._process
        kafka.end()  # a killed JVM writes no archive
        kafka.stop()
        if process is not None and process.returncode != -signal.SIGKILL and made.exists():  # a whole one
            made.replace(jars / _ARCHIVE)


def tool_argv(main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
    """The command line that runs one of Kafka's own tools, e.g. ``org.apache.kafka.tools.ConsoleProducer``."""
    jars = ensure_jars()
    archive = jars / _ARCHIVE
    sharing = [f"-XX:SharedArchiveFile={archive}", *_SHARING] if archive.exists() else []
    return ["java", f"-Xmx{heap_mb}m", *JAVA_OPTIONS, *sharing, "-cp", f"{jars}/*", main_class, *arguments]


def run_tool(
    main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end; its exit code and output are the caller's to judge."""
    return subprocess.run(
        tool_argv(main_class, *arguments), input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def new_storage(directory: Path, *, cluster: str, node: int = 1) -> None:
    """Make a directory that Apache Kafka takes for formatted, for one node of a new cluster.

    Raises:
        KafkaUnavailableError: with the reason, when there are no jars.
    """
    directory.mkdir()
    shutil.copy(_formatted() / _BOOTSTRAP, directory)
    names = {"version": 1, "cluster.id": cluster, "node.id": node, "directory.id": new_uuid()}
    (directory / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in names.items()))


def _formatted() -> Path:
    """What Kafka's own tool makes of a directory: the levels of its features. It costs a JVM, so it is made once."""
    made = ensure_jars() / "formatted"
    if not made.exists():
        with tempfile.TemporaryDirectory(prefix="formatted-", dir=JARS) as directory:
            properties = Path(directory) / "server.properties"
            properties.write_text(ApacheKafka(Path(directory))._properties(9092, 9093))
            done = run_tool("kafka.tools.StorageTool", "format", "-t", new_uuid(), "-c", str(properties))
            if done.returncode != 0:
                raise RuntimeError(f"kafka-storage format failed: {done.stdout}{done.stderr}")
            try:
                (Path(directory) / "logs").rename(made)
            except OSError:
                if not made.exists():  # else another process has made it meanwhile
                    raise
    return made


def new_uuid() -> str:
    """One as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class ApacheKafka:
    """A single-node Apache Kafka (KRaft, combined roles) in a directory of its own; a context manager.

    ``bootstrap`` is its address once ``start`` has returned.
    """

    def __init__(self, directory: Path | None = None, *, java_options: Sequence[str] = (), **configs: str) -> None:
        """``configs``: those of the broker, with ``_`` for each dot; ``java_options``: more options of its JVM."""
        self.directory = directory or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self._own_directory = directory is None
        self._configs = configs
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""

    def start(self, timeout_s: float = 180, port: int | None = None) -> ApacheKafka:
        """Make the storage if it is new, start the broker, and return when topics can be created.

        ``port`` is that of another broker which has ended and whose clients go on.
        """
        port, controller = port or free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        properties = self.directory / "server.properties"
        properties.write_text(self._properties(port, controller))
        if not (self.directory / "logs" / "meta.properties").exists():
            new_storage(self.directory / "logs", cluster=new_uuid())
        output = (self.directory / "broker.log").open("ab")
        java, *rest = tool_argv("kafka.Kafka", str(properties), heap_mb=1024)
        argv = [java, *self._java_options, *rest]
        self._process = subprocess.Popen(argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        output.close()
        self._wait_until_unfenced(timeout_s)
        return self

    def _properties(self, port: int, controller: int) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "logs"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.backoff.ms": "200",
        }
        settings.update({name.replace("_", "."): value for name, value in self._configs.items()})
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _wait_until_unfenced(self, timeout_s: float) -> None:
        """A broker of Kafka listens before its controller counts it as alive. Until then no topic can be created."""
        assert self._process is not None
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200})
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"Apache Kafka ended at start; see {self.directory / 'broker.log'}")
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:  # it does not listen yet, or does not answer
                continue
        self.stop()
        raise TimeoutError(f"Apache Kafka did not listen within {timeout_s} s")

    def end(self) -> None:
        """End the broker cleanly, and keep its directory."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(120)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)
            self._process = None

    def stop(self) -> None:
        """End the broker. If its directory was made here, remove it: nobody reads it, so the broker is killed."""
        if not self._own_directory:
            self.end()
            return
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> ApacheKafka:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def create_offsets_topic(bootstrap: str, topic: str) -> None:
    """Have Apache Kafka create its topic of committed offsets, which takes it longer than a stream waits at its end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})

    def has_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in _NO_COORDINATOR_YET:
                return False  # the broker names the new partition's leader before it leads it
            raise
        return True

    eventually(has_committed, "Apache Kafka keeps committed offsets", pause_s=0.2)
    consumer.close()
