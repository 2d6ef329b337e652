"""Answers made comparable: what must differ (ids, times, addresses) gets a name, the rest stays; and their comparison.

``Side`` is what one broker's answers taught in a run. Values that the broker made up (member ids, topic ids, producer
ids) are learned with the name of the slot that asked for them, and shown by it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mainstem.errors import MainstemError
from mainstem.protocol.schema import ZERO_UUID, Message, Struct
from mainstem.record.header import iter_headers
from mainstem.record.reader import iter_records
from tests.differential.peer import CLOSED
from tests.differential.requests import Names, Step

UNSEEN = {
    "throttle_time_ms",
    "error_message",
    "batch_index_error_message",
    "acknowledge_error_message",
    "documentation",
    "host",
    "client_host",
    "cluster_id",
    "log_dir",
    "transaction_start_time_ms",
    "last_timestamp",
    "total_bytes",
    "usable_bytes",
    "partition_size",
    "finalized_features_epoch",
    "broker_epoch",
}
"""Fields that say how a broker words it, where it is, or when it was asked."""
_ORDER = ("name", "topic", "topic_name", "group_id", "transactional_id", "topic_id", "resource_name", "member_id")
_ORDER += ("partition_index", "partition", "index", "producer_id", "key", "first_offset")
_PORTS = {"port"}
_OFFSETS_TOPIC = "__consumer_offsets"


@dataclass
class Side:
    """What one broker's answers taught in this run."""

    prefix: str
    time_ms: int
    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    shown: dict[Any, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return Names(self.prefix, self.time_ms, self.known)

    def show_as(self, value: Any, name: str) -> None:
        """Let a value that the broker made up be shown by a name from now on."""
        if value in self.shown or value in ("", -1, ZERO_UUID, None):
            return
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        self.shown[value] = f"<{name}#{number}>"

    def learn(self, step: Step, answer: Any) -> None:
        """Take from an answer what later requests refer to."""
        for kind, slot in step.learn.items():
            LEARNERS[kind](self, step, slot, answer)

    # ---- normal form

    def normal(self, step: Step, answer: Any) -> Any:
        if not isinstance(answer, Struct):
            return answer
        made = self._struct(answer, "")
        return _only_own(step, made, self.prefix)

    def _struct(self, struct: Struct, path: str) -> dict[str, Any]:
        made = {
            name: self._value(name, value, path)
            for name, value in struct.__dict__.items()
            if name not in UNSEEN and name not in _PORTS
        }
        if made.get("topic") == _OFFSETS_TOPIC and isinstance(made.get("partitions"), list):
            made["partitions"] = len(made["partitions"])  # which ones depends on how many the topic has
        return made

    def _value(self, name: str, value: Any, path: str) -> Any:
        if isinstance(value, Struct):
            return self._struct(value, path)
        if name == "records" and value is not None and not isinstance(value, list | tuple):
            return self._records(bytes(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, list | tuple):
            return self._list(name, [self._value(name, item, path) for item in value])
        if isinstance(value, uuid.UUID):
            return self.shown.get(value, value if value.int in (0, UNKNOWN_INT) else "<other uuid>")
        if isinstance(value, str):
            return self.shown.get(value) or _UUID.sub("<uuid>", value)
        if name == "log_append_time_ms" and value > 0:
            return "now"
        if name in ("producer_id", "next_producer_id", "session_id", "ongoing_txn_producer_id") and value > 0:
            return self.shown.get(value, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        return value

    def _list(self, name: str, items: list[Any]) -> Any:
        if name == "subscribed_topic_names" or (name == "partitions" and items and isinstance(items[0], int)):
            return sorted(items)
        if not items or not isinstance(items[0], dict):
            return items
        if name == "configs":
            return {each["name"]: each for each in items}
        if name in ("acquired_records", "aborted_transactions"):
            return items
        return sorted(items, key=_order)

    def _records(self, data: bytes) -> list[Any]:
        shown: list[Any] = []
        try:
            for _, header in iter_headers(data):
                fields = header._asdict()
                del fields["crc"], fields["batch_length"]
                fields["producer_id"] = self.shown.get(header.producer_id, header.producer_id)
                if header.has_log_append_time or header.is_control:
                    fields["max_timestamp"] = fields["base_timestamp"] = "now"
                shown.append(fields)
            for record in iter_records(data):
                shown.append((record.offset, record.key, record.value, tuple(record.headers)))
        except MainstemError as error:
            shown.append(f"not read: {type(error).__name__}")
        return shown


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNKNOWN_INT = 0x11111111222233334444555555555555


def _order(item: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_sortable(item.get(name)) for name in _ORDER)


def _sortable(value: Any) -> str:
    return f"{value:020d}" if isinstance(value, int) and value >= 0 else str(value)


_LISTS_ALL = {
    "metadata": ("topics", "name"),
    "list_groups": ("groups", "group_id"),
    "list_transactions": ("transaction_states", "transactional_id"),
    "describe_topic_partitions": ("topics", "name"),
    "list_config_resources": ("config_resources", "resource_name"),
    "list_partition_reassignments": ("topics", "name"),
    "elect_leaders": ("replica_election_results", "topic"),
}


def _only_own(step: Step, made: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Without what other runs have on the same brokers."""
    if step.api in _LISTS_ALL:
        part, name = _LISTS_ALL[step.api]
        made[part] = [each for each in made[part] if prefix in str(each.get(name)) or not each.get(name)]
    cursor = made.get("next_cursor")
    if cursor is not None and prefix not in cursor["topic_name"]:
        made["next_cursor"] = "a topic of the broker's own"
    for group in made["groups"] if step.api == "share_group_describe" else ():
        # Which member has which partition is the order of a hash table in Kafka: how many each has is compared.
        assignments = [member.pop("assignment")["topic_partitions"] for member in group["members"]]
        group["assigned"] = sorted(sum(len(topic["partitions"]) for topic in each) for each in assignments)
    for topic in made["responses"] if step.api == "share_fetch" else ():
        # Kafka leaves a partition without news out while it loads it.
        topic["partitions"] = [each for each in topic["partitions"] if _has_news(each)]
    if step.api == "share_fetch":
        made["responses"] = [topic for topic in made["responses"] if topic["partitions"]]
    for result in made.get("results", ()) if step.api == "describe_log_dirs" else ():
        result["topics"] = [each for each in result["topics"] if prefix in each["name"]]
    return made


def _has_news(partition: dict[str, Any]) -> bool:
    parts = ("error_code", "acknowledge_error_code", "records", "acquired_records")
    return any(partition[part] for part in parts)


# ---- learning


def _learn_member(side: Side, step: Step, slot: str, answer: Any) -> None:
    if answer.member_id:
        side.show_as(answer.member_id, f"member {slot}")
        side.known["member", slot] = answer.member_id
    if getattr(answer, "generation_id", -1) >= 0:
        side.known["generation", slot] = answer.generation_id
        side.known["protocol", slot] = answer.protocol_name
        side.known["assignments", slot] = [
            {"member_id": each.member_id, "assignment": f"part {number}".encode()}
            for number, each in enumerate(sorted(answer.members, key=lambda each: side.shown.get(each.member_id, "")))
        ]
    if hasattr(answer, "member_epoch") and answer.error_code == 0:
        side.known["epoch", slot] = answer.member_epoch
        if answer.assignment is not None:
            side.known["owned", slot] = [
                {"topic_id": each.topic_id, "partitions": list(each.partitions)}
                for each in answer.assignment.topic_partitions
            ]


def _learn_producer(side: Side, step: Step, slot: str, answer: Any) -> None:
    if answer.error_code == 0 and answer.producer_id >= 0:
        side.show_as(answer.producer_id, f"producer {slot}")
        side.known["producer_id", slot] = answer.producer_id
        side.known["producer_epoch", slot] = answer.producer_epoch


def _learn_session(side: Side, step: Step, slot: str, answer: Any) -> None:
    if answer.error_code == 0 and answer.session_id:
        side.show_as(answer.session_id, f"session {slot}")
        epoch = (
            side.known.get(("session_epoch", slot), 0) if answer.session_id == side.known.get(("session", slot)) else 0
        )
        side.known["session", slot] = answer.session_id
        side.known["session_epoch", slot] = epoch + 1


def _learn_share(side: Side, step: Step, slot: str, answer: Any) -> None:
    epoch = step.fields["share_session_epoch"]
    if answer.error_code == 0:
        is_first = epoch == 0
        side.known["share_epoch", slot] = 1 if is_first else side.known.get(("share_epoch", slot), 0) + 1
    for topic in answer.responses:
        for partition in topic.partitions:
            for run in getattr(partition, "acquired_records", ()):
                side.known["first", slot] = run.first_offset
                side.known["last", slot] = run.last_offset


LEARNERS = {
    "member": _learn_member,
    "producer": _learn_producer,
    "session": _learn_session,
    "share": _learn_share,
}


# ---- comparison


class Difference(NamedTuple):
    """One place where the two answers to one request differ."""

    api: str
    version: int
    path: str
    here: Any
    there: Any

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {self.path}: Mainstem {self.here!r} · Kafka {self.there!r}"


ABSENT = "absent"


def differences(step: Step, here: Any, there: Any) -> list[Difference]:
    """Every place in which two normal forms differ."""
    return [Difference(step.api, step.version, *found) for found in _walk("", here, there)]


def _walk(path: str, here: Any, there: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(here, dict) and isinstance(there, dict):
        for name in sorted({*here, *there}, key=str):
            yield from _walk(f"{path}.{name}".lstrip("."), here.get(name, ABSENT), there.get(name, ABSENT))
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for number, (left, right) in enumerate(zip(here, there, strict=True)):
            yield from _walk(f"{path}[{number}]", left, right)
    elif here != there:
        yield path, here, there


def error_codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    found: set[int] = set()
    if isinstance(answer, Struct):
        for name, value in answer.__dict__.items():
            if name.endswith("error_code"):
                found.add(int(value))
            elif isinstance(value, list | tuple | Struct):
                found |= error_codes(value)
    elif isinstance(answer, list | tuple):
        for item in answer:
            found |= error_codes(item)
    return found


__all__ = ["ABSENT", "CLOSED", "Difference", "Message", "Side", "differences", "error_codes"]
