"""Sequences about topics, their records and configs."""

from __future__ import annotations

from typing import Any

from tests.differential.plan import Plan
from tests.differential.requests import DAMAGES, Records, Ref

CONFIGS = (
    ("cleanup.policy", ("delete", "compact", "compact,delete", " compact , delete", "", "none", "DELETE")),
    ("retention.ms", ("1000000000", "-1", "-2", " 604800000", "x", "9223372036854775808")),
    ("retention.bytes", ("-1", "1000000", "-5", "0")),
    ("segment.bytes", ("1048576", "1048575", "2147483647", "2147483648")),
    ("segment.index.bytes", ("4", "3", "1000", "10485760")),
    ("segment.ms", ("100000", "0", "1")),
    ("segment.jitter.ms", ("0", "5", "-1")),
    ("min.cleanable.dirty.ratio", ("0.5", "1", "0", "1.1", ".25", "5e-1")),
    ("min.insync.replicas", ("1", "2", "0")),
    ("max.message.bytes", ("1000000", "0", "-1", "+5000000")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime", "x", "createtime")),
    ("message.timestamp.before.max.ms", ("3600000", "9223372036854775807", "-1")),
    ("message.timestamp.after.max.ms", ("3600000", "9223372036854775807")),
    ("compression.type", ("producer", "uncompressed", "none", "x")),
    ("compression.gzip.level", ("-1", "0", "9", "10")),
    ("compression.lz4.level", ("9", "0", "17")),
    ("compression.zstd.level", ("3", "22", "23")),
    ("preallocate", ("true", "FALSE", "True", "yes")),
    ("unclean.leader.election.enable", ("true", "false", "TRUE")),
    ("delete.retention.ms", ("1", "-1")),
    ("file.delete.delay.ms", ("60000", "-1")),
    ("flush.messages", ("1", "0")),
    ("flush.ms", ("0", "-1", "1000")),
    ("index.interval.bytes", ("0", "-1", "4096")),
    ("max.compaction.lag.ms", ("1", "0", "1000000")),
    ("min.compaction.lag.ms", ("0", "-1", "1000")),
    ("remote.storage.enable", ("true", "false")),
    ("remote.log.copy.disable", ("true", "false")),
    ("remote.log.delete.on.disable", ("true", "false")),
    ("local.retention.ms", ("-2", "-3", "-1", "1000")),
    ("local.retention.bytes", ("-2", "-3", "-1", "1000")),
    ("leader.replication.throttled.replicas", ("", "*", "0:1", "0:1,1:1", "x", "none")),
    ("follower.replication.throttled.replicas", ("", "*", "0:1", "x")),
    ("errors.deadletterqueue.topic.name", ("", "~dlq", "bad name")),
    ("errors.deadletterqueue.topic.enable", ("true",)),
    ("errors.deadletterqueue.group.enable", ("true", "false")),
    ("message.format.version", ("3.0",)),
    ("message.downconversion.enable", ("true",)),
    ("no.such.config", ("1",)),
)
GROUP_CONFIGS = (
    ("consumer.session.timeout.ms", ("45000", "50000", "1", "x")),
    ("consumer.heartbeat.interval.ms", ("5000", "7000", "-1")),
    ("share.session.timeout.ms", ("45000", "50000", "1")),
    ("share.heartbeat.interval.ms", ("5000", "6000")),
    ("share.auto.offset.reset", ("earliest", "latest", "by_duration:PT1H", "EARLIEST", "none")),
    ("share.isolation.level", ("read_committed", "read_uncommitted", "x")),
    ("share.record.lock.duration.ms", ("15000", "30000", "1")),
    ("share.delivery.count.limit", ("2", "5", "11", "1")),
    ("share.partition.max.record.locks", ("100", "2000", "5000")),
    ("share.renew.acknowledge.enable", ("true", "false", "TRUE")),
    ("share.assignment.interval.ms", ("0", "1000", "-1")),
    ("consumer.assignment.interval.ms", ("0", "1000", "-1")),
    ("no.such.config", ("1",)),
)


def create_topic(plan: Plan, name: str, partitions: int, configs: Any = ()) -> None:
    """A topic that both brokers make."""
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    topic["configs"] = [{"name": key, "value": value} for key, value in configs]
    plan.ask("create_topics", {"topics": [topic], "timeout_ms": 20000}, exact=True)
    plan.topics[name] = partitions


def produce(plan: Plan, topic: str | None = None, **more: Any) -> None:
    topic = plan.topic() if topic is None else topic
    partition = plan.partition(topic)
    count = plan.random.choice([1, 1, 2, 5, 20])
    values = tuple(None if plan.chance(0.05) else f"v{plan.random.randrange(1000)}" * 3 for _ in range(count))
    keys = None if plan.chance(0.3) else tuple(f"k{plan.random.randrange(5)}" for _ in range(count))
    damage = plan.random.choice(DAMAGES) if plan.chance(0.06) and "producer" not in more else None
    age_ms = plan.random.choice([0, 0, 0, 1000, 60_000, -600_000])
    records = Records(values, keys, plan.random.choice([0, 0, 0, 1, 2, 3, 4]), age_ms, damage=damage, **more)
    version = plan.version("produce")
    data = {"partition_data": [{"index": partition, "records": records}]}
    data.update({"topic_id": plan.topic_id(topic)} if version >= 13 else {"name": topic})
    acks = plan.random.choice([-1, -1, 1, 1, 2 if plan.chance(0.1) else -1])
    fields = {"acks": acks, "timeout_ms": 10000, "topic_data": [data], "transactional_id": None}
    plan.ask("produce", fields, version=version)


def fetch(plan: Plan, topic: str | None = None) -> None:
    topic = plan.topic() if topic is None else topic
    version = plan.version("fetch")
    partition = {
        "partition": plan.partition(topic),
        "fetch_offset": plan.random.choice([0, 0, 0, 1, 3, 6, 100]),
        "partition_max_bytes": plan.random.choice([1 << 20, 1 << 20, 100, 1]),
        "current_leader_epoch": plan.random.choice([-1, -1, 0, 1]),
        "last_fetched_epoch": plan.random.choice([-1, -1, -1, 0, 1]),
    }
    asked: dict[str, Any] = {"partitions": [partition]}
    asked.update({"topic_id": plan.topic_id(topic)} if version >= 13 else {"topic": topic})
    fields: dict[str, Any] = {
        "max_wait_ms": 0,
        "min_bytes": plan.random.choice([0, 1, 1]),
        "max_bytes": plan.random.choice([1 << 20, 1 << 20, 200, 1]),
        "isolation_level": plan.random.choice([0, 1]),
        "topics": [asked],
    }
    learn = {}
    if version >= 7 and plan.chance(0.4):
        if plan.chance(0.3):
            fields.update(session_id=0, session_epoch=0)
        else:
            fields.update(session_id=Ref("session", "s", 0), session_epoch=Ref("session_epoch", "s", 0))
            if plan.chance(0.4):
                fields["topics"] = []
            elif plan.chance(0.3):
                forgotten = {"partitions": [plan.partition(topic)]}
                forgotten.update({"topic_id": plan.topic_id(topic)} if version >= 13 else {"topic": topic})
                fields["forgotten_topics_data"] = [forgotten]
        learn = {"session": "s"}
    plan.ask("fetch", fields, version=version, learn=learn)


def list_offsets(plan: Plan) -> None:
    topic = plan.topic()
    timestamp = plan.random.choice([-1, -2, -3, -4, -5, -6, -7, 0, Ref("now", "now", 0), 2**60])
    partition = {"partition_index": plan.partition(topic), "timestamp": timestamp}
    partition["current_leader_epoch"] = plan.random.choice([-1, -1, 0, 1])
    fields = {"replica_id": -1, "isolation_level": plan.random.choice([0, 1])}
    fields["topics"] = [{"name": topic, "partitions": [partition]}]
    fields["timeout_ms"] = 10000
    plan.ask("list_offsets", fields)


def epochs(plan: Plan) -> None:
    topic = plan.topic()
    partition = {"partition": plan.partition(topic), "leader_epoch": plan.random.choice([0, 0, 1, -1, 5])}
    partition["current_leader_epoch"] = plan.random.choice([-1, -1, 0, 1])
    plan.ask("offset_for_leader_epoch", {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition]}]})


def metadata(plan: Plan) -> None:
    version = plan.version("metadata")
    flags = {"include_topic_authorized_operations": plan.chance(0.3), "allow_auto_topic_creation": False}
    flags["include_cluster_authorized_operations"] = plan.chance(0.3)
    if version < 4:
        topics: Any = [{"name": plan.random.choice(list(plan.topics))}]
    elif plan.chance(0.15):
        topics = None
    elif version >= 12 and plan.chance(0.4):
        topics = [{"name": None, "topic_id": plan.topic_id(plan.topic())}]
    else:
        names = {plan.topic() for _ in range(plan.random.choice([0, 1, 1, 2]))}
        topics = [{"name": name} for name in sorted(names)]
    plan.ask("metadata", {"topics": topics, **flags}, version=version, exact=version < 4)


def describe_topics(plan: Plan) -> None:
    names = sorted({plan.topic() for _ in range(plan.random.choice([1, 2]))})
    cursor = (
        None if plan.chance(0.7) else {"topic_name": plan.topic(), "partition_index": plan.random.choice([0, 1, -1])}
    )
    fields = {"topics": [{"name": name} for name in names], "cursor": cursor}
    fields["response_partition_limit"] = plan.random.choice([2000, 1, 2])
    plan.ask("describe_topic_partitions", fields)


def change_topics(plan: Plan) -> None:
    kind = plan.random.randrange(5)
    if kind == 0:
        name = f"~t{len(plan.topics)}"
        chosen = plan.random.sample(CONFIGS, plan.random.choice([0, 1, 1, 2]))
        topic = {"name": name, "num_partitions": plan.random.choice([1, 2, -1, 0]), "replication_factor": 1}
        topic["configs"] = [{"name": key, "value": plan.random.choice(values)} for key, values in chosen]
        if plan.chance(0.1):
            assigned = [{"partition_index": number, "broker_ids": [1]} for number in range(2)]
            topic.update(assignments=assigned, num_partitions=-1, replication_factor=-1)
        plan.ask("create_topics", {"topics": [topic], "timeout_ms": 20000, "validate_only": plan.chance(0.2)})
        plan.topics[name] = 1
    elif kind == 1:
        name = plan.topic()
        count = plan.random.choice([plan.topics.get(name, 1) + 1, 1, 0, -1, 3])
        asked = {"name": name, "count": count, "assignments": None if plan.chance(0.8) else [{"broker_ids": [1]}]}
        plan.ask("create_partitions", {"topics": [asked], "timeout_ms": 20000, "validate_only": plan.chance(0.3)})
    elif kind == 2 and len(plan.topics) > 1:
        name = plan.topic()
        version = plan.version("delete_topics")
        if version >= 6:
            asked = {"name": name} if plan.chance(0.5) else {"name": None, "topic_id": plan.topic_id(name)}
            plan.ask("delete_topics", {"topics": [asked], "timeout_ms": 20000}, version=version)
        else:
            plan.ask("delete_topics", {"topic_names": [name], "timeout_ms": 20000}, version=version)
        if plan.chance(0.5) and name in plan.topics and name:
            create_topic(plan, name, 1)
    else:
        name = plan.topic()
        partition = {"partition_index": plan.partition(name), "offset": plan.random.choice([-1, 0, 1, 2, 5, 1000])}
        plan.ask("delete_records", {"topics": [{"name": name, "partitions": [partition]}], "timeout_ms": 10000})


def configs(plan: Plan) -> None:
    of_group = plan.chance(0.3)
    known, name = (GROUP_CONFIGS, "~g0") if of_group else (CONFIGS, plan.topic())
    resource = {"resource_type": 32 if of_group else 2, "resource_name": name}
    chosen = plan.random.sample(known, plan.random.choice([1, 1, 2]))
    kind = plan.random.random()
    if kind < 0.35:
        keys = None if plan.chance(0.5) else [key for key, _ in chosen]
        fields = {"resources": [{**resource, "configuration_keys": keys}], "include_synonyms": plan.chance(0.4)}
        plan.ask("describe_configs", fields)
    elif kind < 0.8:
        changed = [
            {
                "name": key,
                "config_operation": plan.random.choice([0, 0, 0, 1, 2, 3, 9 if plan.chance(0.2) else 0]),
                "value": plan.random.choice(values),
            }
            for key, values in chosen
        ]
        fields = {"resources": [{**resource, "configs": changed}], "validate_only": plan.chance(0.2)}
        plan.ask("incremental_alter_configs", fields)
        described = {**resource, "configuration_keys": [key for key, _ in chosen]}
        plan.ask("describe_configs", {"resources": [described], "include_synonyms": True}, exact=True)
    else:
        changed = [{"name": key, "value": plan.random.choice(values)} for key, values in chosen]
        fields = {"resources": [{**resource, "configs": changed}], "validate_only": plan.chance(0.2)}
        plan.ask("alter_configs", fields)


def cluster(plan: Plan) -> None:
    topic = plan.topic()
    partitions = [plan.partition(topic)]
    kind = plan.random.randrange(8)
    if kind == 0:
        plan.ask("describe_cluster", {"include_cluster_authorized_operations": plan.chance(0.5)})
    elif kind == 1:
        plan.ask("describe_log_dirs", {"topics": [{"topic": topic, "partitions": partitions}]})
    elif kind == 2:
        fields = {"election_type": plan.random.choice([0, 1]), "timeout_ms": 5000}
        plan.ask(
            "elect_leaders", {**fields, "topic_partitions": [{"topic": topic, "partitions": partitions}]}, exact=True
        )
    elif kind == 3:
        plan.ask("list_partition_reassignments", {"topics": [{"name": topic, "partition_indexes": partitions}]})
    elif kind == 4:
        plan.ask("find_coordinator", _coordinator(plan, version := plan.version("find_coordinator")), version=version)
    elif kind == 5:
        plan.ask("list_config_resources", {"resource_types": plan.random.choice([[], [2], [32], [2, 32], [99]])})
    elif kind == 6:
        plan.ask("describe_producers", {"topics": [{"name": topic, "partition_indexes": partitions}]})
    else:
        quotas(plan)


def _coordinator(plan: Plan, version: int) -> dict[str, Any]:
    kind = plan.random.choice([0, 0, 1, 1, 2])
    key = plan.random.choice(["~g0", "~x0", "", f"~g0:{'A' * 22}:0"])
    return {"key_type": kind, "coordinator_keys": [key]} if version >= 4 else {"key": key, "key_type": kind}


def quotas(plan: Plan) -> None:
    entity = [{"entity_type": plan.random.choice(["user", "client-id"]), "entity_name": "~u"}]
    if plan.chance(0.6):
        key = plan.random.choice(["producer_byte_rate", "consumer_byte_rate", "request_percentage", "no_such"])
        value = plan.random.choice([1e9, 2e9, 0.5, -1.0])
        op = {"key": key, "value": value, "remove": plan.chance(0.3)}
        plan.ask(
            "alter_client_quotas", {"entries": [{"entity": entity, "ops": [op]}], "validate_only": plan.chance(0.2)}
        )
    component = {"entity_type": entity[0]["entity_type"], "match_type": plan.random.choice([0, 0, 9]), "match": "~u"}
    plan.ask("describe_client_quotas", {"components": [component], "strict": plan.chance(0.5)})


def idempotent(plan: Plan) -> None:
    """A producer with sequences, that sometimes repeats or skips one."""
    slot = plan.random.choice(["p0", "p1"])
    if slot not in plan.owned or plan.chance(0.1):
        fields = {"transactional_id": None, "transaction_timeout_ms": 60000}
        plan.ask("init_producer_id", fields, learn={"producer": slot}, exact=plan.chance(0.8))
        plan.owned[slot] = True
        plan.sequences = {key: value for key, value in plan.sequences.items() if key[0] != slot}
        return
    topic = plan.topic()
    partition = plan.partition(topic)
    key = (slot, topic, partition)
    sequence = plan.sequences.get(key, 0)
    if plan.chance(0.15):
        sequence += plan.random.choice([-1, 1, 5])
    version = plan.version("produce")
    records = Records(("a", "b"), None, 0, producer=slot, sequence=max(sequence, 0), epoch_plus=_epoch_plus(plan))
    if records.epoch_plus == 0:
        plan.sequences[key] = max(sequence, 0) + 2
    data: dict[str, Any] = {"partition_data": [{"index": partition, "records": records}]}
    data.update({"topic_id": plan.topic_id(topic)} if version >= 13 else {"name": topic})
    fields = {"acks": -1, "timeout_ms": 10000, "topic_data": [data], "transactional_id": None}
    plan.ask("produce", fields, version=version, exact=True)


def _epoch_plus(plan: Plan) -> int:
    return plan.random.choice([-1, 1]) if plan.chance(0.06) else 0
