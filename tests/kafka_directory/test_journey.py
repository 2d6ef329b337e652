"""Mainstem, then Apache Kafka on the same log, then Mainstem again, under clients that stay.

Records, groups, transactions and rights go along, both ways. The three stages run once; each test looks at one thing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.admin import ResourcePatternType as PatternType

from mainstem.kafka_directory.adoption import adopt, plan_adoption
from mainstem.kafka_directory.graduation import commit, graduate, plan_graduation
from mainstem.log.files.disk import OsDisk
from mainstem.log.recovery.verify import verify_directory
from tests.broker.harness import LogProcess
from tests.kafka_directory import journey
from tests.support.apache_kafka import ApacheKafka, run_tool
from tests.support.ports import free_port

pytestmark = pytest.mark.maven

MARKED = ("classic", "copier", "live")
DUMP = "org.apache.kafka.tools.DumpLogSegments"


class SecuredKafka(ApacheKafka):
    """It has a listener for users too; who comes without a user is its administrator."""

    sasl = ""

    def _properties(self, port: int, controller: int) -> str:
        self.sasl = f"127.0.0.1:{free_port()}"
        own = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://{self.sasl}"
        settings = {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": own,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.cleaner.backoff.ms": "100",
        }
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"listener.name.sasl_plaintext.{mechanism}.sasl.jaas.config"] = login
        lines = super()._properties(port, controller).splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in settings]
        return "\n".join([*kept, *(f"{name}={value}" for name, value in settings.items()), ""])


class Stages:
    """Where things are, and what clients saw at each stage."""

    def __init__(self, root: Path) -> None:
        self.data, self.kafka_root, self.back = root / "data", root / "kafka", root / "back"
        self.kafka_root.mkdir()
        self.logs = self.kafka_root / "logs"
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.seen: dict[str, Any] = {}
        self.open: Producer
        self.live: Consumer
        self.mixed: list[Consumer] = []

    def look(self, stage: str) -> None:
        """Keep what clients see now."""
        self.seen[stage] = {
            "records": journey.everything(self.bootstrap),
            "ids": journey.topic_ids(self.bootstrap, journey.TOPICS),
            "committed": {group: journey.committed(self.bootstrap, group) for group in MARKED},
        }


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Stages:
    """All three stages, one after the other."""
    found = Stages(tmp_path_factory.mktemp("journey"))
    log = LogProcess(found.data, group_consumer_heartbeat_interval_ms="500")
    log.bootstrap = found.bootstrap
    with log:
        _begin(found)
        found.look("before")
    journey.add_rights(found.data)
    found.seen["plan"] = plan_graduation(found.data, found.logs)
    assert not found.logs.exists()
    graduate(found.data, found.logs)
    found.seen["dumped"] = _dump_all(found.logs)
    kafka = SecuredKafka(found.kafka_root)
    try:
        kafka.start(port=found.port)
        found.look("on kafka")
        _go_on(found, kafka)
        found.look("left kafka")
    finally:
        kafka.end()
    found.seen["plan back"] = plan_adoption(found.logs, found.back)
    adopt(found.logs, found.back)
    found.seen["verified"] = verify_directory(OsDisk(), found.back)
    log = LogProcess(found.back)
    log.bootstrap = found.bootstrap
    with log:
        found.look("back")
        _finish(found)
    return found


def _begin(stages: Stages) -> None:
    bootstrap = stages.bootstrap
    journey.create_topics(bootstrap)
    journey.append(bootstrap, "events", 6000, partitions=3, size=300)
    journey.append(bootstrap, "orders", 300)
    classic = journey.group_consumer(bootstrap, "classic")
    classic.subscribe(["events"])
    journey.consume(classic, 1000)
    classic.commit(
        offsets=[TopicPartition("events", number, 333, metadata="so far") for number in range(3)], asynchronous=False
    )
    classic.close()
    stages.live = journey.group_consumer(bootstrap, "live", group_protocol="consumer")
    stages.live.subscribe(["orders"])
    stages.seen["live"] = journey.consume(stages.live, 100)
    stages.live.commit(asynchronous=False)
    stages.mixed = journey.mixed_group(bootstrap, "mixed", "empty")
    stages.seen["mixed"] = [journey.shares(stages.mixed, 2)]
    ended = journey.transactional(bootstrap, "ended")
    for number in range(4):
        ended.begin_transaction()
        ended.produce("orders", b"ended %d" % number)
        ended.flush(journey.TIMEOUT_S)
        (ended.commit_transaction if number % 2 else ended.abort_transaction)(journey.TIMEOUT_S)
    stages.open = journey.transactional(bootstrap, "open")
    stages.open.begin_transaction()
    stages.open.produce("orders", b"open")
    copier = journey.group_consumer(bootstrap, "copier")
    offsets = [TopicPartition("events", 0, 77)]
    stages.open.send_offsets_to_transaction(offsets, copier.consumer_group_metadata(), journey.TIMEOUT_S)
    copier.close()
    assert stages.open.flush(journey.TIMEOUT_S) == 0


def _go_on(stages: Stages, kafka: SecuredKafka) -> None:
    """The same clients, on Apache Kafka."""
    stages.open.commit_transaction(journey.TIMEOUT_S)
    stages.seen["live"] += journey.consume(stages.live, 100)
    stages.live.commit(asynchronous=False)
    stages.seen["mixed"].append(journey.shares(stages.mixed, 2))
    admin = AdminClient({"bootstrap.servers": stages.bootstrap})
    stages.seen["acls"] = _acls(admin)
    stages.seen["quotas"] = run_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", stages.bootstrap, "--describe", "--entity-type", "clients"
    ).stdout
    stages.seen["configs"] = {
        kind: {name: each.value for name, each in admin.describe_configs([resource])[resource].result(60).items()}
        for kind, resource in (
            ("topic", ConfigResource(ConfigResource.Type.TOPIC, "orders")),
            ("broker", ConfigResource(ConfigResource.Type.BROKER, "1")),
        )
    }
    changed = ConfigResource(ConfigResource.Type.TOPIC, "events")
    changed.add_incremental_config(ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([changed])[changed].result(journey.TIMEOUT_S)
    stages.seen["login"] = [
        _login(kafka.sasl, "secret", "events"),
        _login(kafka.sasl, "secret", "orders"),
        _login(kafka.sasl, "wrong", "events", 2),
    ]
    journey.compacted_topic(stages.bootstrap, stages.logs)
    stages.open.begin_transaction()
    stages.open.produce("orders", b"open on kafka")
    assert stages.open.flush(journey.TIMEOUT_S) == 0


def _finish(stages: Stages) -> None:
    """The same clients, on Mainstem again."""
    stages.open.commit_transaction(journey.TIMEOUT_S)
    stages.seen["live"] += journey.consume(stages.live, 104)
    stages.seen["mixed"].append(journey.shares(stages.mixed, 2))
    stages.seen["table"] = journey.read(stages.bootstrap, "table", 0)
    journey.append(stages.bootstrap, "orders", 1)
    stages.seen["end"] = journey.read(stages.bootstrap, "orders", 0)
    for client in (stages.live, *stages.mixed):
        client.close()  # while the log runs: without one, a member of the consumer protocol may wait for ever


def _acls(admin: AdminClient) -> list[tuple[Any, ...]]:
    every = AclBindingFilter(
        ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    found = admin.describe_acls(every).result(journey.TIMEOUT_S)
    return [(each.name, each.resource_pattern_type, each.principal, each.operation) for each in found]


def _login(address: str, password: str, topic: str, timeout_s: float = 30) -> str:
    """The metadata of a topic as alice sees it: ``ok``, or the name of the error. A refused login is tried on."""
    user = {"sasl.username": "alice", "sasl.password": password, "sasl.mechanism": "SCRAM-SHA-512"}
    client = AdminClient({"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", "log_level": 0, **user})
    try:
        error = client.list_topics(topic, timeout=timeout_s).topics[topic].error
    except KafkaException as failure:
        return str(failure.args[0].name())
    return "ok" if error is None else str(error.name())


def _dump_all(logs: Path) -> list[tuple[str, str]]:
    """The output of Kafka's tool for the events, of the metadata, and of the groups."""
    segments = ",".join(sorted(str(path) for path in logs.glob("events-0/*.log")))
    metadata = ",".join(str(path) for path in logs.glob("__cluster_metadata-0/*"))
    groups = ",".join(sorted(str(path) for path in logs.glob("__consumer_offsets-0/*.log")))
    runs = (
        ("--deep-iteration", "--files", segments),
        ("--cluster-metadata-decoder", "--files", metadata),
        ("--offsets-decoder", "--files", groups),
    )
    done = [run_tool(DUMP, *arguments) for arguments in runs]
    return [(each.stdout, each.stderr) for each in done]


def test_every_committed_record_is_on_kafka_as_it_was(stages: Stages) -> None:
    before, after = stages.seen["before"]["records"], stages.seen["on kafka"]["records"]
    assert sum(map(len, before.values())) == 6000 + 300 + 2
    assert after == before  # the offset, the leader epoch, the time, the key, the value and the headers of each


def test_topics_keep_their_ids(stages: Stages) -> None:
    ids = [stages.seen[stage]["ids"] for stage in ("before", "on kafka", "back")]
    assert ids[0] == ids[1] == ids[2]


def test_groups_keep_their_offsets_and_metadata(stages: Stages) -> None:
    before = stages.seen["before"]["committed"]
    assert before["classic"] == {("events", number): (333, "so far") for number in range(3)}
    assert stages.seen["on kafka"]["committed"] == before


def test_a_transaction_that_was_open_commits_on_kafka_with_its_offsets(stages: Stages) -> None:
    assert not any(each.value == b"open" for each in stages.seen["on kafka"]["records"]["orders", 0])
    left = stages.seen["left kafka"]
    assert [each.value for each in left["records"]["orders", 0]][-1] == b"open"
    assert left["committed"]["copier"] == {("events", 0): (77, None)}


def test_a_transaction_that_was_open_on_kafka_commits_here(stages: Stages) -> None:
    assert not any(each.value == b"open on kafka" for each in stages.seen["back"]["records"]["orders", 0])
    assert [each.value for each in stages.seen["end"]][-2] == b"open on kafka"


def test_a_consumer_that_stays_reads_each_record_once(stages: Stages) -> None:
    assert stages.seen["live"] == [each.value for each in stages.seen["end"]][: len(stages.seen["live"])]
    assert len(stages.seen["live"]) == 304


def test_members_of_both_protocols_stay_in_their_group(stages: Stages) -> None:
    ids = stages.seen["mixed"]
    assert len(ids) == 3
    assert ids[0] == ids[1] == ids[2]


def test_users_acls_quotas_and_configs_go_along(stages: Stages) -> None:
    assert stages.seen["acls"] == [("ev", PatternType.PREFIXED, "User:alice", AclOperation.READ)]
    assert stages.seen["login"] == ["ok", "TOPIC_AUTHORIZATION_FAILED", "_TRANSPORT"]
    assert re.search(r"client-id 'app' are .*request_percentage=50", stages.seen["quotas"])
    assert stages.seen["configs"]["topic"]["compression.type"] == "zstd"
    assert stages.seen["configs"]["topic"]["retention.ms"] == "-1"
    assert stages.seen["configs"]["broker"]["log.retention.ms"] == "123456789"


def test_everything_is_back(stages: Stages) -> None:
    left, back = stages.seen["left kafka"], stages.seen["back"]
    assert back["records"] == left["records"]
    assert back["committed"] == left["committed"]
    assert stages.seen["verified"].damages == []
    plan = stages.seen["plan back"]
    assert plan.cluster.users == ["alice"]
    assert plan.cluster.quotas == stages.seen["plan"].cluster.quotas
    assert [tuple(each) for each in plan.cluster.acls] == [tuple(journey.ACL)]


def test_the_gaps_of_kafkas_compaction_are_filled(stages: Stages) -> None:
    gaps = [each for each in stages.seen["plan back"].partitions if each.with_gaps]
    assert "table" in {each.topic_partition.topic for each in gaps}
    newest = {each.key: each.value for each in stages.seen["table"]}
    assert newest == journey.TABLE


def test_kafkas_own_tool_reads_the_files(stages: Stages) -> None:
    (records, complaints), (metadata, _), (groups, _) = stages.seen["dumped"]
    assert len(re.findall(r"^\| offset: ", records, re.MULTILINE)) == 2000
    assert "CorruptRecordException" not in complaints
    assert metadata.count('"type":"PARTITION_RECORD"') == 3 + 1 + 2 + 2
    assert '"type":"USER_SCRAM_CREDENTIAL_RECORD"' in metadata
    assert '"classicMemberMetadata":null' in groups  # the member of group live speaks the consumer protocol
    assert re.search(r'"classicMemberMetadata":\{"sessionTimeoutMs":300000,', groups)


def test_the_plan_says_what_kafka_does_not_have(stages: Stages) -> None:
    report = stages.seen["plan"].report
    assert report.sizes.linked_files >= 3
    assert report.transactions == {"ended": "CompleteCommit", "open": "Ongoing"}
    assert report.offsets["classic"] == 3
    assert any(note.what == "topic events: mainstem.key.index=true" for note in report.notes)


def test_the_old_log_can_be_given_up_only_as_it_was(stages: Stages) -> None:
    gone = commit(stages.data, stages.logs)
    assert "events-0" in gone
    assert not (stages.data / "events-0").exists()
    with pytest.raises(RuntimeError, match="did not start"):
        LogProcess(stages.data).start()
    adopt(stages.logs, stages.data)  # the way back into the same directory
    assert verify_directory(OsDisk(), stages.data).damages == []
