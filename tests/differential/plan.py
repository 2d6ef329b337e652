"""What a sequence made so far, and how a step is added to it: the common part of all makers of sequences.

A plan knows names that it gave (topics, groups, members, producers), never answers, so that a seed gives the same
sequence whatever the brokers say. Pure; randomness is the plan's own, of its seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.schema import Struct, VersionRange
from tests.differential.requests import UNKNOWN_ID, Ref, Step

WRONG_SHARE = 0.12
_KEPT = {
    "timeout_ms",
    "max_wait_ms",
    "replica_id",
    "replica_state",
    "cluster_id",
    "resource_type",
    "transaction_version",
}
_KEPT |= {
    "rack_id",
    "isolation_level",
    "share_acquire_mode",
    "coordinator_epoch",
    "entity_type",
    "entity_name",
    "transaction_timeout_ms",
    "replica_epoch",
}
_KEPT |= {"rebalance_timeout_ms", "session_timeout_ms", "high_watermark", "replica_directory_id", "entity"}
_FULL = {"partitions", "partition_data", "partition_indexes"}
"""Arrays that are left as they are: what is said of a topic without partitions differs between Kafka's APIs."""
_INTS = (-1, -2, 0, 1, 2, 7, 1000, 2**31 - 1)
_SMALL = {"int8": 127, "int16": 32767, "int32": 2**31 - 1}


class Plan:
    """A sequence in the making."""

    def __init__(self, seed: int, versions: Mapping[str, VersionRange]) -> None:
        self.random = random.Random(seed)
        self.versions = versions
        self.steps: list[Step] = []
        self.topics: dict[str, int] = {}
        self.sequences: dict[tuple[str, str, int], int] = {}
        self.owned: dict[str, Any] = {}
        self.limits_records = False
        """Whether each share fetch counts records exactly, in RECORD_LIMIT mode."""

    def serves(self, api: str) -> bool:
        return api in self.versions

    def version(self, api: str, low: int = 0) -> int:
        """A version that both brokers list: the newest in half of the cases."""
        first, last = self.versions[api]
        first = min(max(first, low), last)
        return last if self.random.random() < 0.5 else self.random.randint(first, last)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def topic(self) -> str:
        """The name of a topic: mostly one that was made."""
        if not self.topics or self.chance(0.04):
            return self.random.choice(["~none", "", "~bad name", "~" + "x" * 250])
        return self.random.choice(list(self.topics))

    def topic_id(self, name: str) -> Ref | Any:
        if self.chance(0.04):
            return UNKNOWN_ID
        return Ref("topic_id", name, UNKNOWN_ID)

    def partition(self, topic: str) -> int:
        return (
            self.random.randrange(self.topics.get(topic, 1)) if self.chance(0.95) else self.random.choice([-1, 5, 99])
        )

    def ask(self, api: str, fields: Mapping[str, Any], **options: Any) -> None:
        """Add a step: one value in it may be made wrong. Options: client, version, learn, exact."""
        if not self.serves(api):
            return
        version = options.get("version")
        version = self.version(api) if version is None else version
        fields = _plain(fields)
        if not options.get("exact") and self.chance(WRONG_SHARE):
            self._spoil(entity(ApiKey[api.upper()], version, True), fields, version)
        self.steps.append(Step(api, version, options.get("client", "one"), fields, options.get("learn", {})))

    def _spoil(self, cls: type[Struct], fields: dict[str, Any], version: int) -> None:
        places = list(_places(cls, fields, version))
        if not places:
            return
        holder, field = self.random.choice(places)
        wrong = self._wrong(field, version)
        # A member that changes its instance id: Kafka leaves it without partitions (see ConsumerGroupHeartbeat).
        holder[field.name] = "" if field.name == "instance_id" else wrong

    def _wrong(self, field: Any, version: int) -> Any:
        if version in field.nullable and self.chance(0.5):
            return None
        if field.kind == "string":
            return self.random.choice(["", "~none", "~none", "~ä", "~" + "x" * 260])
        if field.kind == "bool":
            return self.chance(0.5)
        if field.kind.startswith("array"):
            return []
        if field.kind == "uuid":
            return UNKNOWN_ID
        if field.kind == "bytes":
            return b""
        return min(self.random.choice(_INTS), _SMALL.get(field.kind, 2**31 - 1))


def _plain(value: Any) -> Any:
    """A copy whose dicts and lists are this step's own."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _places(cls: type[Struct], fields: dict[str, Any], version: int) -> Any:
    for field in cls.__fields__:
        if field.name not in fields or version not in field.versions or field.name in _KEPT or field.kind == "records":
            continue
        value = fields[field.name]
        if field.struct is not None and isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    yield from _places(field.struct, item, version)
        elif field.struct is not None and isinstance(value, dict):
            yield from _places(field.struct, value, version)
            continue
        if field.kind not in ("struct", "float64") and field.name not in _FULL:
            yield fields, field
