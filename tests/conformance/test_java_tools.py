"""Apache Kafka's own Java client and tools against the log process, and its dump tool against the log's files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from tests.backup.support import once
from tests.broker.harness import LogProcess
from tests.support.apache_kafka import run_tool
from tests.support.eventually import eventually

pytestmark = [pytest.mark.maven, pytest.mark.usefixtures("kafka_jars")]

TOOLS = "org.apache.kafka.tools."
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"


class Tools:
    """Kafka's tools, with the log's address given to each."""

    def __init__(self, log: LogProcess) -> None:
        self.log = log

    def __call__(self, main_class: str, *arguments: str, stdin: str | None = None) -> str:
        done = run_tool(main_class, "--bootstrap-server", self.log.bootstrap, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Exception" not in done.stderr, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def stored_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the log's backup is."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, stored_log: Path) -> Iterator[LogProcess]:
    """As for all clients; its old segments may be in a store. The last test stops it."""
    settings = {"mainstem_remote_storage_url": f"file://{stored_log}", "remote_log_manager_task_interval_ms": "50"}
    with LogProcess(
        tmp_path_factory.mktemp("log") / "data", group_min_session_timeout_ms="1000", **settings
    ) as process:
        yield process


@pytest.fixture(scope="module")
def tools(log: LogProcess) -> Tools:
    return Tools(log)


def events(output: str, name: str) -> list[dict[str, object]]:
    """The JSON lines of one kind that a verifiable client prints."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if line["name"] == name]


def test_topics_are_made_described_grown_and_deleted(tools: Tools) -> None:
    topic = ("--topic", "topics")
    tools(TOOLS + "TopicCommand", "--create", *topic, "--partitions", "3", "--config", "retention.ms=100000")
    tools(TOOLS + "TopicCommand", "--alter", *topic, "--partitions", "5")
    described = tools(TOOLS + "TopicCommand", "--describe", *topic)
    assert "PartitionCount: 5" in described
    assert "retention.ms=100000" in described
    tools(TOOLS + "TopicCommand", "--delete", *topic)
    assert "topics" not in tools(TOOLS + "TopicCommand", "--list").split()


def test_the_console_consumer_reads_what_the_console_producer_wrote(tools: Tools) -> None:
    topic = ("--topic", "console")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    tools(TOOLS + "ConsoleProducer", *topic, *keyed, "--compression-codec", "zstd", stdin="h:x\tk1\tv1\nh:y\tk2\tv2\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    bounds = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    output = tools(TOOLS + "consumer.ConsoleConsumer", *topic, *bounds, *shown, "--group", "console")
    assert sorted(output.split("\n"))[1:] == ["h:x\tk1\tv1", "h:y\tk2\tv2"]


def test_the_verifiable_clients_deliver_commit_and_go_on(tools: Tools) -> None:
    topic = ("--topic", "verifiable")
    produced = tools(TOOLS + "VerifiableProducer", *topic, "--max-messages", "2000", "--acks", "-1")
    sent = [event["offset"] for event in events(produced, "producer_send_success")]
    assert sent == list(range(2000))
    group = ("--group-id", "verifiable", "--reset-policy", "earliest")
    seen = 0
    for count in (500, 1500):
        consumed = tools(TOOLS + "VerifiableConsumer", *topic, *group, "--max-messages", str(count))
        (partition,) = events(consumed, "records_consumed")[0]["partitions"]  # type: ignore[misc]
        assert partition["minOffset"] == seen
        seen += count
        assert all(event["success"] for event in events(consumed, "offsets_committed"))
    listed = tools(TOOLS + "GetOffsetShell", *topic)
    assert listed.strip() == "verifiable:0:2000"


def test_the_performance_tools_write_and_read_all_their_records(tools: Tools) -> None:
    topic, count = ("--topic", "performance"), "5000"
    size = ("--num-records", count, "--record-size", "500", "--throughput", "-1")
    shown = tools(TOOLS + "ProducerPerformance", *topic, *size, "--command-property", "compression.type=lz4")
    assert shown.splitlines()[-1].startswith(f"{count} records sent")
    measured = tools(TOOLS + "ConsumerPerformance", *topic, "--num-records", count, "--timeout", "60000")
    assert measured.splitlines()[-1].split(", ")[4] == count


def test_a_groups_offsets_are_shown_reset_and_deleted(tools: Tools) -> None:
    topic, group = ("--topic", "groups"), ("--group", "groups")
    tools(TOOLS + "ConsoleProducer", *topic, stdin="a\nb\nc\n")
    bounds = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "60000")
    tools(TOOLS + "consumer.ConsoleConsumer", *topic, *bounds, *group)
    assert _columns(tools(GROUPS, "--describe", *group), "groups")[3:6] == ["3", "3", "0"]
    tools(GROUPS, "--reset-offsets", *group, *topic, "--to-offset", "1", "--execute")
    assert _columns(tools(GROUPS, "--describe", *group), "groups")[3:6] == ["1", "3", "2"]
    tools(GROUPS, "--delete", *group)
    assert "groups" not in tools(GROUPS, "--list").split()


def _columns(output: str, group: str) -> list[str]:
    return next(line.split() for line in output.splitlines() if line.startswith(group))


def test_configs_are_changed_and_described(tools: Tools) -> None:
    tools(TOOLS + "TopicCommand", "--create", "--topic", "configs")
    entity = ("--entity-type", "topics", "--entity-name", "configs")
    tools("kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "retention.ms=5000")
    described = tools("kafka.admin.ConfigCommand", "--describe", *entity, "--all")
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in described
    node = tools("kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "num.partitions=1" in node


def test_kafka_finds_the_versions_that_are_served_usable(tools: Tools) -> None:
    output = tools(TOOLS + "BrokerApiVersionsCommand")
    usable = {line.split("(")[0].strip() for line in output.splitlines() if "usable" in line}
    assert {"Produce", "Fetch", "Metadata", "JoinGroup", "OffsetCommit", "CreateTopics"} <= usable
    assert "unusable" not in output.lower()


def test_the_offset_shell_shows_where_the_local_part_begins_and_the_stored_one_ends(
    tools: Tools, log: LogProcess, stored_log: Path
) -> None:
    topic = ("--topic", "tiered")
    configs = {"remote.storage.enable": "true", "local.retention.bytes": "0", "retention.ms": "-1"}
    with Log(log.bootstrap) as client:
        client.create_topic("tiered", partitions=1, configs=configs | {"internal.segment.bytes": "60000"})
        for _ in range(10):
            client.append_many("tiered", ["x" * 900] * 10)
    partition = log.data_dir / "tiered-0"

    def local_start() -> int | None:
        once(log.data_dir, f"file://{stored_log}")
        bases = [int(path.stem) for path in partition.glob("*.log")]
        return bases[0] if len(bases) == 1 else None

    start = eventually(local_start, "the closed segments have left the disk")
    for time, offset in {"-4": start, "-5": start - 1}.items():
        assert tools(TOOLS + "GetOffsetShell", *topic, "--time", time).strip() == f"tiered:0:{offset}", time


def test_kafka_reads_the_groups_and_segments_that_were_written(tools: Tools, tmp_path: Path) -> None:
    data = tools.log.data_dir
    tools(TOOLS + "ConsoleProducer", "--topic", "dump", stdin="a\nb\n")
    bounds = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000", "--group", "dump")
    tools(TOOLS + "consumer.ConsoleConsumer", "--topic", "dump", *bounds)
    tools.log.stop()
    segment = "00000000000000000000.log"
    groups = run_tool(
        TOOLS + "DumpLogSegments", "--offsets-decoder", "--files", str(data / "__consumer_offsets-0" / segment)
    )
    assert '{"type":"1","data":{"group":"dump","topic":"dump","partition":0}}' in groups.stdout
    assert '"offset":2' in groups.stdout
    assert '"assignedPartitions":[{"topic":"dump","partitions":[0]}]' in groups.stdout
    for name in ("dump-0", "__consumer_offsets-0", "__mainstem_metadata-0"):
        dumped = run_tool(TOOLS + "DumpLogSegments", "--deep-iteration", "--files", str(data / name / segment))
        assert (dumped.returncode, dumped.stderr) == (0, "")
        assert "isvalid: false" not in dumped.stdout
