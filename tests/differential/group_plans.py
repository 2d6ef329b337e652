"""Sequences about groups: classic ones, consumer groups (KIP-848), share groups, and what is committed in them."""

from __future__ import annotations

import struct
from typing import Any

from tests.differential.log_plans import produce
from tests.differential.plan import Plan
from tests.differential.requests import Ref, share_member

GROUPS = ("~g0", "~g0", "~g0", "~g1")
_METADATA_MAX = 4096


def group(plan: Plan) -> str:
    return plan.random.choice(GROUPS) if plan.chance(0.97) else plan.random.choice(["~gone", ""])


def _subscription(topics: list[str]) -> bytes:
    """A consumer's subscription, version 0. The prefix of names is not known here: topics are left out."""
    return struct.pack(">hii", 0, 0, 0)


def _member(plan: Plan) -> str:
    return plan.random.choice(["m0", "m0", "m1", "m2"])


def classic(plan: Plan) -> None:
    """One request of a member of a classic group."""
    slot = _member(plan)
    of_group = "~g1" if slot == "m2" else "~g0"
    instance = f"i-{slot}" if plan.owned.setdefault(f"static {slot}", plan.chance(0.25)) else None
    kind = plan.random.random()
    member, generation = Ref("member", slot, ""), Ref("generation", slot, -1)
    if kind < 0.4:
        for _ in range(plan.random.choice([1, 2])):
            _join(plan, slot, of_group, instance)
    elif kind < 0.6:
        version = plan.version("sync_group")
        fields = {"group_id": of_group, "generation_id": generation, "member_id": member}
        fields.update(group_instance_id=instance, protocol_type="consumer" if plan.chance(0.9) else None)
        fields["protocol_name"] = Ref("protocol", slot, "range") if plan.chance(0.9) else None
        fields["assignments"] = Ref("assignments", slot, [])
        plan.ask("sync_group", fields, version=version, client=slot)
    elif kind < 0.75:
        fields = {"group_id": of_group, "generation_id": generation, "member_id": member, "group_instance_id": instance}
        plan.ask("heartbeat", fields, client=slot)
    elif kind < 0.85:
        version = plan.version("leave_group")
        members = [{"member_id": member, "group_instance_id": instance}]
        if instance is not None and plan.chance(0.4):
            members[0]["member_id"] = ""
        fields = (
            {"group_id": of_group, "member_id": member} if version < 3 else {"group_id": of_group, "members": members}
        )
        plan.ask("leave_group", fields, version=version, client=f"{slot}-other")
    else:
        _commit(plan, of_group, member, generation, instance)


def _join(plan: Plan, slot: str, of_group: str, instance: str | None) -> None:
    names = plan.random.choice([["range"], ["range", "roundrobin"], ["roundrobin", "range"]])
    fields = {
        "group_id": of_group,
        "session_timeout_ms": 60000 if plan.chance(0.95) else plan.random.choice([0, 1, 5999, 1_800_001]),
        "rebalance_timeout_ms": 120_000,
        "member_id": Ref("member", slot, ""),
        "group_instance_id": instance,
        "protocol_type": "consumer" if plan.chance(0.95) else plan.random.choice(["", "connect"]),
        "protocols": [{"name": name, "metadata": _subscription([])} for name in names],
    }
    version = 9 if plan.chance(0.5) else plan.version("join_group", 5 if instance else 0)
    plan.ask("join_group", fields, version=version, client=slot, learn={"member": slot})


def _commit(plan: Plan, of_group: str, member: Any, generation: Any, instance: str | None) -> None:
    topic = plan.topic()
    version = plan.version("offset_commit")
    partition = {"partition_index": plan.partition(topic), "committed_offset": plan.random.choice([0, 1, 5, -1])}
    partition["committed_leader_epoch"] = plan.random.choice([-1, 0])
    partition["committed_metadata"] = plan.random.choice([None, "", "note", "x" * 5000])
    # Beside too long metadata there is a right one: a group of which all was refused parts the brokers.
    is_long = len(partition["committed_metadata"] or "") > _METADATA_MAX
    partitions = [{**partition, "committed_metadata": ""}, partition] if is_long else [partition]
    asked: dict[str, Any] = {"partitions": partitions}
    asked.update({"topic_id": plan.topic_id(topic)} if version >= 10 else {"name": topic})
    fields = {"group_id": of_group, "member_id": member, "generation_id_or_member_epoch": generation}
    fields.update(group_instance_id=instance if version >= 7 else None, topics=[asked])
    plan.ask("offset_commit", fields, version=version)


def offsets(plan: Plan) -> None:
    """Commits from outside, reads and deletions of offsets; groups listed and described."""
    of_group, topic = group(plan), plan.topic()
    kind = plan.random.randrange(8)
    if kind <= 1:
        _commit(plan, of_group, "" if plan.chance(0.8) else "stranger", -1 if plan.chance(0.8) else 3, None)
    elif kind == 2:
        fetch_offsets(plan, of_group, topic)
    elif kind == 3:
        partitions = [{"partition_index": plan.partition(topic)}]
        plan.ask("offset_delete", {"group_id": of_group, "topics": [{"name": topic, "partitions": partitions}]})
    elif kind == 4:
        plan.ask("describe_groups", {"groups": [of_group], "include_authorized_operations": plan.chance(0.3)})
    elif kind == 5:
        states = plan.random.choice([[], [], ["Empty"], ["stable"], ["Stable", "Empty"], ["x"]])
        types = plan.random.choice([[], [], ["classic"], ["Consumer"], ["share"], ["x"]])
        version = plan.version("list_groups")
        plan.ask("list_groups", {"states_filter": states, "types_filter": types}, version=version, exact=True)
    elif kind == 6 and plan.chance(0.4):
        plan.ask("delete_groups", {"groups_names": [of_group]})
    else:
        describe = plan.random.choice(["consumer_group_describe", "share_group_describe"])
        plan.ask(describe, {"group_ids": [of_group], "include_authorized_operations": plan.chance(0.3)})


def fetch_offsets(plan: Plan, of_group: str, topic: str) -> None:
    version = plan.version("offset_fetch")
    numbers = [plan.partition(topic)]
    if version >= 8:
        asked: dict[str, Any] = {"partition_indexes": numbers}
        asked.update({"topic_id": plan.topic_id(topic)} if version >= 10 else {"name": topic})
        slot = _member(plan)
        wanted = {"group_id": of_group, "topics": None if plan.chance(0.4) else [asked]}
        if plan.chance(0.3):
            wanted.update(member_id=Ref("member", slot, None), member_epoch=Ref("epoch", slot, -1))
        fields: dict[str, Any] = {"groups": [wanted]}
    else:
        topics = None if version >= 2 and plan.chance(0.4) else [{"name": topic, "partition_indexes": numbers}]
        fields = {"group_id": of_group, "topics": topics}
    plan.ask("offset_fetch", {**fields, "require_stable": plan.chance(0.4)}, version=version)


def consumer(plan: Plan) -> None:
    """One request of a member of a consumer group."""
    slot = _member(plan)
    of_group = "~g1" if slot == "m2" else "~g0"
    kind = plan.random.random()
    version = plan.version("consumer_group_heartbeat")
    named = plan.owned.setdefault(f"member id {slot}", f"~{slot}-own-id")
    member = named
    instance = f"i-{slot}" if plan.owned.setdefault(f"static {slot}", plan.chance(0.25)) else None
    if kind < 0.3 or slot not in plan.owned:
        plan.owned[slot] = True
        names = sorted({plan.topic() for _ in range(plan.random.choice([1, 2]))} - {"~bad name", ""})
        fields = {"group_id": of_group, "member_id": member, "member_epoch": 0, "instance_id": instance}
        fields.update(rebalance_timeout_ms=300_000, subscribed_topic_names=names, topic_partitions=[])
        assignors = ["range", "uniform", None] if of_group == "~g1" else ["range"]
        fields["server_assignor"] = plan.random.choice(assignors) if plan.chance(0.95) else "x"
        plan.ask("consumer_group_heartbeat", fields, version=version, client=slot, learn={"member": slot})
    elif kind < 0.7:
        fields = {"group_id": of_group, "member_id": Ref("member", slot, named), "member_epoch": Ref("epoch", slot, 0)}
        fields["instance_id"] = instance
        if plan.chance(0.6):
            fields["topic_partitions"] = Ref("owned", slot, [])
        if plan.chance(0.2):
            fields["subscribed_topic_names"] = [plan.topic()]
        plan.ask("consumer_group_heartbeat", fields, version=version, client=slot, learn={"member": slot})
    elif kind < 0.78:
        fields = {"group_id": of_group, "member_id": Ref("member", slot, named), "instance_id": instance}
        fields["member_epoch"] = plan.random.choice([-1, -1, -2])
        plan.ask("consumer_group_heartbeat", fields, version=version, client=slot)
    elif kind < 0.88:
        _commit(plan, of_group, Ref("member", slot, named), Ref("epoch", slot, 0), instance)
    else:
        plan.ask(
            "consumer_group_describe", {"group_ids": [of_group], "include_authorized_operations": plan.chance(0.3)}
        )


def share(plan: Plan) -> None:
    """One request of a member of a share group, or about one."""
    slot = plan.random.choice(["m0", "m0", "m1"])
    of_group, topic = "~s0", plan.random.choice(list(plan.topics))
    kind = plan.random.random()
    own_id = share_member(slot)
    if kind < 0.2 or slot not in plan.owned:
        epoch: Any = 0 if slot not in plan.owned or plan.chance(0.1) else Ref("epoch", slot, 0)
        plan.owned[slot] = True
        if plan.chance(0.1):
            epoch = -1
        fields = {"group_id": of_group, "member_id": own_id, "member_epoch": epoch}
        fields["subscribed_topic_names"] = None if epoch == -1 else sorted(plan.topics)[:2]
        plan.ask("share_group_heartbeat", fields, client=slot, learn={"member": slot})
        return
    if kind < 0.55:
        _share_fetch(plan, slot, of_group, own_id, topic)
    elif kind < 0.7:
        batch = {"first_offset": Ref("first", slot, 0), "last_offset": Ref("last", slot, 0)}
        batch["acknowledge_types"] = [plan.random.choice([1, 2, 2, 2, 3, 0, 9 if plan.chance(0.1) else 1])]
        partition = {"partition_index": plan.partition(topic), "acknowledgement_batches": [batch]}
        fields = {"group_id": of_group, "member_id": own_id, "share_session_epoch": Ref("share_epoch", slot, 0)}
        fields["topics"] = [{"topic_id": plan.topic_id(topic), "partitions": [partition]}]
        plan.ask("share_acknowledge", fields, client=slot, learn={"share": slot})
    elif kind < 0.8:
        produce(plan, topic)
    else:
        _share_admin(plan, of_group, topic)


def _share_fetch(plan: Plan, slot: str, of_group: str, own_id: str, topic: str) -> None:
    is_first = not plan.owned.get(f"session {slot}") or plan.chance(0.05)
    plan.owned[f"session {slot}"] = True
    fields: dict[str, Any] = {
        "group_id": of_group,
        "member_id": own_id,
        "share_session_epoch": 0 if is_first else Ref("share_epoch", slot, 0),
        "max_wait_ms": 400,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": plan.random.choice([500, 500, 3, 1]),
        "batch_size": plan.random.choice([500, 100, 1]),
        "share_acquire_mode": plan.random.choice([0, 0, 1]),
        "topics": [],
    }
    if is_first or plan.chance(0.3):
        partition = {"partition_index": plan.partition(topic), "acknowledgement_batches": []}
        fields["topics"] = [{"topic_id": plan.topic_id(topic), "partitions": [partition]}]
    version = None
    if plan.limits_records:
        fields["share_acquire_mode"], version = 1, plan.versions["share_fetch"].last
    plan.ask("share_fetch", fields, client=slot, learn={"share": slot}, version=version)


def _share_admin(plan: Plan, of_group: str, topic: str) -> None:
    kind = plan.random.randrange(5)
    if kind <= 1:
        number = min(plan.partition(topic), plan.topics[topic] - 1)  # for one that is not there Kafka never answers
        topics = None if plan.chance(0.4) else [{"topic_name": topic, "partitions": [number]}]
        plan.ask("describe_share_group_offsets", {"groups": [{"group_id": of_group, "topics": topics}]})
    elif kind == 2:
        partition = {"partition_index": plan.partition(topic), "start_offset": plan.random.choice([0, 1, 2, -1])}
        fields = {"group_id": of_group, "topics": [{"topic_name": topic, "partitions": [partition]}]}
        plan.ask("alter_share_group_offsets", fields)
    elif kind == 3:
        plan.ask("delete_share_group_offsets", {"group_id": of_group, "topics": [{"topic_name": topic}]})
    else:
        plan.ask("share_group_describe", {"group_ids": [of_group], "include_authorized_operations": plan.chance(0.3)})
