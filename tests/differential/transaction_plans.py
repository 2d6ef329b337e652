"""Sequences about transactional producers."""

from __future__ import annotations

from typing import Any

from tests.differential.log_plans import fetch, list_offsets
from tests.differential.plan import Plan
from tests.differential.requests import Records, Ref

_SLOTS = ("x0", "x0", "x1")


def transactions(plan: Plan) -> None:
    """One request of a transactional producer, or about one."""
    slot = plan.random.choice(_SLOTS)
    transactional_id = f"~{slot}"
    ids = {"producer_id": Ref("producer_id", slot, 1000), "producer_epoch": Ref("producer_epoch", slot, 0)}
    if plan.chance(0.05):
        ids["producer_epoch"] = Ref("producer_epoch", slot, 0, plan.random.choice([1, -1]))
    kind = plan.random.random()
    if slot not in plan.owned or kind < 0.1:
        _begin(plan, slot, transactional_id, ids)
    elif kind < 0.25:
        _add_partitions(plan, transactional_id, ids)
    elif kind < 0.5:
        _produce(plan, slot, transactional_id)
    elif kind < 0.55:
        plan.ask("add_offsets_to_txn", {"transactional_id": transactional_id, **ids, "group_id": "~g0"})
    elif kind < 0.65:
        _commit(plan, transactional_id, ids)
    elif kind < 0.82:
        fields = {"transactional_id": transactional_id, **ids, "committed": plan.chance(0.6)}
        plan.ask("end_txn", fields, learn={"producer": slot})
        plan.sequences.clear()
    else:
        _look(plan, transactional_id)


def _begin(plan: Plan, slot: str, transactional_id: str, ids: dict[str, Any]) -> None:
    plan.owned[slot] = True
    fields: dict[str, Any] = {"transactional_id": transactional_id, "transaction_timeout_ms": 600_000}
    if plan.chance(0.3):
        fields.update(ids)
    version = min(plan.version("init_producer_id"), 5)
    plan.ask("init_producer_id", fields, version=version, learn={"producer": slot})
    plan.sequences = {key: value for key, value in plan.sequences.items() if key[0] != slot}


def _add_partitions(plan: Plan, transactional_id: str, ids: dict[str, Any]) -> None:
    version = min(plan.version("add_partitions_to_txn"), 3)
    topic = plan.topic()
    fields: dict[str, Any] = {"v3_and_below_transactional_id": transactional_id}
    fields.update({f"v3_and_below_{name}": value for name, value in ids.items()})
    fields["v3_and_below_topics"] = [{"name": topic, "partitions": [plan.partition(topic)]}]
    plan.ask("add_partitions_to_txn", fields, version=version)


def _produce(plan: Plan, slot: str, transactional_id: str) -> None:
    topic = plan.random.choice(list(plan.topics))
    partition = plan.partition(topic)
    key = (slot, topic, partition)
    sequence = plan.sequences.get(key, 0)
    records = Records(("t1", "t2"), ("a", "b"), 0, 0, slot, sequence, True)
    plan.sequences[key] = sequence + 2
    version = plan.version("produce")
    data: dict[str, Any] = {"partition_data": [{"index": partition, "records": records}]}
    data.update({"topic_id": plan.topic_id(topic)} if version >= 13 else {"name": topic})
    fields = {"acks": -1, "timeout_ms": 10000, "topic_data": [data], "transactional_id": transactional_id}
    plan.ask("produce", fields, version=version)


def _commit(plan: Plan, transactional_id: str, ids: dict[str, Any]) -> None:
    topic = plan.topic()
    partition = {"partition_index": plan.partition(topic), "committed_offset": plan.random.randrange(10)}
    partition.update(committed_leader_epoch=-1, committed_metadata=plan.random.choice([None, "", "t"]))
    fields = {"transactional_id": transactional_id, "group_id": "~g0", **ids}
    fields.update(generation_id=-1, member_id="", group_instance_id=None)
    fields["topics"] = [{"name": topic, "partitions": [partition]}]
    plan.ask("txn_offset_commit", fields)


def _look(plan: Plan, transactional_id: str) -> None:
    kind = plan.random.randrange(6)
    topic = plan.topic()
    if kind == 0:
        plan.ask("describe_transactions", {"transactional_ids": [transactional_id]})
    elif kind == 1:
        states = plan.random.choice([[], [], ["Ongoing"], ["CompleteCommit", "Empty"], ["x"]])
        fields = {"state_filters": states, "producer_id_filters": [], "duration_filter": -1}
        plan.ask(
            "list_transactions", {**fields, "transactional_id_pattern": plan.random.choice([None, "", "~.*", "("])}
        )
    elif kind == 2:
        plan.ask("describe_producers", {"topics": [{"name": topic, "partition_indexes": [plan.partition(topic)]}]})
    elif kind == 3:
        list_offsets(plan)
    else:
        fetch(plan)
