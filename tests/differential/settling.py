"""Waits until Kafka's metadata shows what an answered change made: then the next request sees it on both sides.

Mainstem's changes hold when they are answered. Kafka's controller answers first, and its broker follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.differential.answers import Side, differences
from tests.differential.peer import CLOSED, Peer
from tests.differential.requests import SHARE_SLOTS, Ref, Step, build, share_member

_WAIT_S = 3.0
_TOPICS_CHANGED = {"create_topics", "create_partitions", "delete_topics"}
_CONFIGS_CHANGED = {"incremental_alter_configs", "alter_configs"}
_DONE = {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "Dead", ""}


def settle(peers: Sequence[Peer], sides: Sequence[Side], step: Step, *, patience_s: float = 0.0) -> None:
    """Return when both brokers show the same of what a step changed, or after a while.

    ``patience_s``: how long Kafka's group coordinator, which gets topics after the metadata that clients see, has time.
    """
    if step.api in _TOPICS_CHANGED:
        _settle_topics(peers, sides, step)
        time.sleep(patience_s)  # nothing announces that the coordinator has them
    elif step.api in _CONFIGS_CHANGED:
        for resource in step.fields["resources"]:
            asked = {name: resource[name] for name in ("resource_type", "resource_name")}
            described = {**asked, "configuration_keys": [config["name"] for config in resource["configs"]]}
            _until_equal(peers, sides, Step("describe_configs", 1, "admin", {"resources": [described]}))
    elif step.api == "share_group_heartbeat":
        _settle_shares(peers, sides, step)
    elif step.api in ("end_txn", "init_producer_id") and step.fields.get("transactional_id"):
        asked = Step("describe_transactions", 0, "admin", {"transactional_ids": [step.fields["transactional_id"]]})
        for peer, side in zip(peers, sides, strict=True):
            _until(lambda peer=peer, side=side: _is_done(_exchange(peer, side, asked)))


def _settle_shares(peers: Sequence[Peer], sides: Sequence[Side], step: Step) -> None:
    """Heartbeat until the members of a share group have the same assignments: Kafka's coordinator first writes the
    state of the partitions, and assigns them at a later heartbeat.
    """
    group_id = step.fields["group_id"]
    described = Step("share_group_describe", 1, "admin", {"group_ids": [group_id]})

    def are_equal() -> bool:
        shown = [
            _assignments(side.normal(described, _exchange(peer, side, described)))
            for peer, side in zip(peers, sides, strict=True)
        ]
        if shown[0] == shown[1]:
            return True
        for slot in SHARE_SLOTS:
            fields = {"group_id": group_id, "member_id": share_member(slot), "member_epoch": Ref("epoch", slot, -2)}
            beat = Step("share_group_heartbeat", 1, "admin", fields, {"member": slot})
            for peer, side in zip(peers, sides, strict=True):
                answer = _exchange(peer, side, beat) if ("epoch", slot) in side.known else CLOSED
                if answer is not CLOSED and answer.error_code == 0:
                    side.learn(beat, answer)
        return False

    _until(are_equal)


def _assignments(answer: Any) -> Any:
    if answer == CLOSED:
        return answer
    return [group["assigned"] for group in answer["groups"]]


def _is_done(answer: Any) -> bool:
    return answer is CLOSED or all(each.transaction_state in _DONE for each in answer.transaction_states)


def _settle_topics(peers: Sequence[Peer], sides: Sequence[Side], step: Step) -> None:
    names = [each["name"] for each in step.fields.get("topics", ())]
    names = [*names, *step.fields.get("topic_names", ())]
    names = [each for each in names if isinstance(each, str) and 0 < len(each) < 200]
    if not names and step.fields.get("topics"):
        _settle_deletion(peers, sides, step)
        return
    asked = Step("metadata", 12, "admin", {"topics": [{"name": each} for each in names], **_NO_CREATION})
    _until_equal(peers, sides, asked, lambda side, answer: _learn_topics(side, names, answer))
    listed = [
        {"name": each, "partitions": [{"partition_index": number, "timestamp": -2} for number in range(3)]}
        for each in names
    ]
    _until_equal(peers, sides, Step("list_offsets", 5, "admin", {"replica_id": -1, "topics": listed}))


_NO_CREATION = {"allow_auto_topic_creation": False}


def _settle_deletion(peers: Sequence[Peer], sides: Sequence[Side], step: Step) -> None:
    """Topics that were deleted by id: the names of these ids."""
    slots = [each["topic_id"].slot for each in step.fields["topics"] if isinstance(each.get("topic_id"), Ref)]
    names = [each for each in slots if 0 < len(each) < 200]
    asked = Step("metadata", 12, "admin", {"topics": [{"name": each} for each in names], **_NO_CREATION})
    if names:
        _until_equal(peers, sides, asked)


def _learn_topics(side: Side, names: Sequence[str], answer: Any) -> None:
    for topic in answer.topics:
        for name in names:
            if name.replace("~", side.prefix) == topic.name and topic.topic_id.int:
                side.show_as(topic.topic_id, f"topic {name}")
                side.known["topic_id", name] = topic.topic_id


def _until_equal(
    peers: Sequence[Peer], sides: Sequence[Side], step: Step, learn: Callable[[Side, Any], None] | None = None
) -> None:
    def are_equal() -> bool:
        shown = []
        for peer, side in zip(peers, sides, strict=True):
            answer = _exchange(peer, side, step)
            if answer is CLOSED:
                return True
            if learn is not None:
                learn(side, answer)
            shown.append(side.normal(step, answer))
        return not differences(step, *shown)

    _until(are_equal)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)  # nothing announces that a broker's metadata has come: ask again


def _exchange(peer: Peer, side: Side, step: Step) -> Any:
    return peer.exchange(build(step, side.names), step.version)
