"""Subscriptions and assignments as members of the classic protocol send and get them, by topic id.

Later versions of the protocol only add fields at the end, so a newer one is read as the newest that is known. Topics
and partitions that are not there are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_group import assignment_of
from mainstem.broker.groups.consumer.consumer_steps import Catalog
from mainstem.errors import FrameError
from mainstem.protocol.codec import encode_message
from mainstem.protocol.compiler import reader
from mainstem.protocol.messages.embedded_consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    EmbeddedTopicPartitions,
)
from mainstem.protocol.schema import Message

_M = TypeVar("_M", bound=Message)
_VERSION: Final = struct.Struct(">h")
_VERSION_MAX: Final = 3


class EmbeddedSubscription(NamedTuple):
    """The subscription of a member, and the partitions that it says it holds."""

    topics: frozenset[str]
    owned: Assignment
    rack_id: str | None


def read_subscription(data: bytes, catalog: Catalog) -> EmbeddedSubscription:
    """Read a member's subscription. Raises FrameError for bytes that are none."""
    body = _read(ConsumerProtocolSubscription, data)
    return EmbeddedSubscription(frozenset(body.topics), _by_id(body.owned_partitions, catalog), body.rack_id or None)


def read_assignment(data: bytes, catalog: Catalog) -> tuple[Assignment, bool]:
    """Read a member's assignment, and whether it has data of an assignor beside it. Raises FrameError."""
    if not data:
        return {}, False
    body = _read(ConsumerProtocolAssignment, data)
    return _by_id(body.assigned_partitions, catalog), bool(body.user_data)


def assignment_bytes(assignment: Assignment, names: Mapping[UUID, str], subscription: bytes) -> bytes:
    """Return an assignment in the version of a member's subscription. ``names`` are the topics' names by their ids."""
    version = _version_of(subscription)
    partitions = [
        EmbeddedTopicPartitions(topic=names[topic_id], partitions=sorted(numbers))
        for topic_id, numbers in assignment.items()
        if topic_id in names
    ]
    body = ConsumerProtocolAssignment(assigned_partitions=sorted(partitions, key=lambda each: each.topic))
    return _VERSION.pack(version) + encode_message(body, version)


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise FrameError(f"a member's metadata is {len(data)} bytes long; it begins with a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise FrameError(f"a member's metadata has version {version}")
    return min(version, _VERSION_MAX)


def _read(message: type[_M], data: bytes) -> _M:
    body, _ = reader(message, _version_of(data))(data, _VERSION.size)
    return body


def _by_id(topics: Iterable[EmbeddedTopicPartitions], catalog: Catalog) -> Assignment:
    found = []
    for item in topics:
        info = catalog.topic(item.topic)
        if info is not None:
            found.append((info.topic_id, [number for number in item.partitions if 0 <= number < info.partitions]))
    return assignment_of(found)
