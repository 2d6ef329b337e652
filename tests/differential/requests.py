"""Requests as data that both brokers are sent: what depends on an earlier answer is a ``Ref``, resolved for each side.

A ``Step`` is one request in one version over one client's connection. Its ``fields`` are plain dicts, lists, scalars
and ``Ref``; ``build`` makes the message of it for one side. A ``~`` in a string stands for the prefix of the names of
one run, so that runs on one broker do not meet. Steps hold no state: any of them can be left out of a sequence.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from crc32c import crc32c

from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.schema import Message, Struct
from mainstem.record.constants import Compression
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch

CRC_AT, CRC_FROM = 17, 21


class Ref(NamedTuple):
    """What an earlier answer brought: ``kind`` of ``slot``; ``default`` while it has not. ``plus`` is added to it."""

    kind: str
    slot: str
    default: Any
    plus: int = 0


@dataclass(frozen=True)
class Records:
    """The record batches of a Produce request. ``damage`` names a change that makes them wrong."""

    values: tuple[str | None, ...]
    keys: tuple[str | None, ...] | None = None
    codec: int = 0
    age_ms: int = 0
    producer: str | None = None
    sequence: int = -1
    transactional: bool = False
    epoch_plus: int = 0
    damage: str | None = None


@dataclass(frozen=True)
class Step:
    """One request. ``learn`` names the slots that its answer fills."""

    api: str
    version: int
    client: str
    fields: Mapping[str, Any]
    learn: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> ApiKey:
        return ApiKey[self.api.upper()]

    def __str__(self) -> str:
        learned = f"  -> {dict(self.learn)}" if self.learn else ""
        return f"{self.client}: {self.api} v{self.version} {dict(self.fields)!r}{learned}"


class Names(NamedTuple):
    """What a side needs to build its messages: the run's prefix and time, and what was learned."""

    prefix: str
    time_ms: int
    known: Mapping[tuple[str, str], Any]


SHARE_SLOTS = ("m0", "m1")
"""The members of share groups."""


def share_member(slot: str) -> str:
    """The id that a member of a share group gives itself."""
    return f"~{slot}-AAAAAA"


def build(step: Step, names: Names) -> Message:
    """The message of a step for one side."""
    message: Message = _struct(entity(step.key, step.version, True), step.fields, names)
    return message


def _struct(cls: type[Struct], values: Mapping[str, Any], names: Names) -> Any:
    unknown = set(values) - {each.name for each in cls.__fields__}
    assert not unknown, f"{cls.__name__} has no {unknown}"
    made = {}
    for each in cls.__fields__:
        if each.name in values:
            made[each.name] = _value(each.struct, values[each.name], names)
        else:
            made[each.name] = each.default_value()
    return cls(**made)


def _value(cls: type[Struct] | None, value: Any, names: Names) -> Any:
    if isinstance(value, Ref):
        value = resolve(value, names)
    if isinstance(value, Records):
        return _batches(value, names)
    if isinstance(value, str):
        return value.replace("~", names.prefix)
    if isinstance(value, list | tuple):
        return [_value(cls, item, names) for item in value]
    if isinstance(value, Mapping):
        assert cls is not None
        return _struct(cls, value, names)
    return value


def resolve(ref: Ref, names: Names) -> Any:
    value = names.known.get((ref.kind, ref.slot), ref.default)
    return value + ref.plus if ref.plus else value


def _batches(records: Records, names: Names) -> bytes:
    stamp = None
    if records.producer is not None:
        producer_id = names.known.get(("producer_id", records.producer), 0)
        epoch = names.known.get(("producer_epoch", records.producer), 0) + records.epoch_plus
        stamp = ProducerStamp(producer_id, epoch, records.sequence, records.transactional)
    keys = records.keys or (None,) * len(records.values)
    rows = [
        NewRecord(_bytes(key), _bytes(value), (("h", b"1"),) if number % 3 == 2 else (), names.time_ms - records.age_ms)
        for number, (key, value) in enumerate(zip(keys, records.values, strict=True))
    ]
    batch = build_batch(rows, compression=Compression(records.codec), producer=stamp)
    return batch if records.damage is None else damaged(batch, records.damage)


def damaged(batch: bytes, how: str) -> bytes:
    """A batch that is wrong in one way; its checksum is right unless that is what is wrong."""
    data = bytearray(batch)
    if how == "base_offset":
        data[0:8] = struct.pack(">q", 5)
    elif how == "two_batches":
        return batch + batch
    elif how == "append_time":
        data[22] |= 8
    elif how == "count":
        data[57:61] = struct.pack(">i", struct.unpack_from(">i", data, 57)[0] + 1)
    elif how == "last_delta":
        data[23:27] = struct.pack(">i", struct.unpack_from(">i", data, 23)[0] + 1)
    elif how == "codec":
        data[22] |= 7
    elif how == "control":
        data[22] |= 32
    elif how == "magic":
        data[16] = 3
    elif how == "crc":
        data[17] ^= 1
        return bytes(data)
    elif how == "cut":
        return batch[:-3]
    elif how == "empty":
        return b""
    data[CRC_AT:CRC_FROM] = struct.pack(">I", crc32c(bytes(data[CRC_FROM:])))
    return bytes(data)


DAMAGES = (
    "base_offset",
    "two_batches",
    "append_time",
    "count",
    "last_delta",
    "codec",
    "control",
    "magic",
    "crc",
    "cut",
)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


UNKNOWN_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")
