"""Every message at every version, against kio: another implementation of Kafka's message definitions."""

from __future__ import annotations

import copy
import io
import random
import uuid
from dataclasses import fields
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from mainstem.broker.apis import APIS
from mainstem.protocol.apis import OWN_APIS, ApiKey, entity
from mainstem.protocol.compiler import reader, writer
from mainstem.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from mainstem.protocol.schema import Field, Message, Struct

_TIMES = (
    "log_append_time_ms",
    "expiry_timestamp_ms",
    "max_timestamp",
    "issue_timestamp_ms",
    "transaction_start_time_ms",
)
_ERRORS = [code.value for code in KioErrorCode]
_WIDTH = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 62}

KAFKA_APIS = [ApiKey(key) for key in APIS if key not in OWN_APIS]


def random_value(field: Field, kind: str, version: int, rng: random.Random) -> Any:
    if kind.startswith("array"):
        inner = kind.partition(":")[2]
        return [random_value(field, inner or "struct", version, rng) for _ in range(rng.randrange(4))]
    if kind == "struct":
        assert field.struct is not None
        return random_struct(field.struct, version, rng)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return float(rng.randrange(-(2**40), 2**40))
    if kind == "string":
        return "".join(rng.choice("abcß水-") for _ in range(rng.choice((0, 1, 5, 60, 200))))
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 5, 200, 6000)))
    if kind == "uuid":
        return uuid.UUID(bytes=rng.randbytes(16))
    if field.name.endswith("error_code"):
        return rng.choice(_ERRORS)
    if kind == "int64" and (field.name.endswith("_ms") or field.name in _TIMES):
        return rng.randrange(2**41)
    return rng.randrange(2 ** _WIDTH[kind]) * (-1 if kind[0] == "i" and rng.random() < 0.2 else 1)


_OWN_TAGS_FROM = 32_000  # Mainstem's own; kio refuses tags that it does not know, which KIP-482 says to pass over


def random_struct(cls: type[Struct], version: int, rng: random.Random) -> Any:
    values: dict[str, Any] = {}
    for field in cls.__fields__:
        # A copy: all messages share one default, and who uses this may change it.
        value = copy.deepcopy(field.default_value())
        is_own = field.tag is not None and field.tag >= _OWN_TAGS_FROM
        if version in field.versions and not (version in field.tagged and rng.random() < 0.5) and not is_own:
            value = random_value(field, field.kind, version, rng)
            value = field.default_value() if value == [] and version in field.tagged else value
            if version in field.nullable and field.kind != "records" and rng.random() < 0.2:
                value = None
        values[field.name] = value
    return cls(**values)


def encoded(message: Message, version: int) -> bytes:
    chunks: list[Any] = []
    writer(type(message), version)(message, chunks)
    return b"".join(chunks)


def kio_class(api: ApiKey, version: int, request: bool) -> Any:
    kind = EntityType.request if request else EntityType.response
    module, _, name = schema_name_map[api.name.lower()][version][kind].partition(":")
    return getattr(__import__(module, fromlist=[name]), name)


@pytest.mark.parametrize("request_side", [True, False], ids=["request", "response"])
@pytest.mark.parametrize("api", KAFKA_APIS, ids=lambda api: api.name.lower())
def test_every_version_reads_and_writes_as_kio_does(api: ApiKey, request_side: bool) -> None:
    rng = random.Random(f"{api}{request_side}")
    for version in schema_name_map[api.name.lower()]:
        cls = entity(api, version, request_side)
        theirs = kio_class(api, version, request_side)
        read, write = entity_reader(theirs), entity_writer(theirs)
        for _ in range(4):
            message = random_struct(cls, version, rng)
            data = encoded(message, version)
            foreign, size = read(data, 0)
            out = io.BytesIO()
            write(out, foreign)
            assert (size, out.getvalue()) == (len(data), data), f"version {version}"
            assert reader(cls, version)(data, 0) == (message, len(data)), f"version {version}"


@pytest.mark.parametrize("api", KAFKA_APIS, ids=lambda api: api.name.lower())
def test_the_versions_that_are_declared_are_those_that_kio_knows(api: ApiKey) -> None:
    for request_side in (True, False):
        known = schema_name_map[api.name.lower()]
        first, last = entity(api, min(known), request_side).__versions__
        assert list(range(first, last + 1)) == sorted(known)


@pytest.mark.parametrize("api", KAFKA_APIS, ids=lambda api: api.name.lower())
def test_fields_have_the_names_that_kio_gives_them(api: ApiKey) -> None:
    for version in schema_name_map[api.name.lower()]:
        for request_side in (True, False):
            ours = [f.name for f in entity(api, version, request_side).__fields__ if version in f.versions]
            theirs = [field.name for field in fields(kio_class(api, version, request_side))]
            assert [name.removesuffix("_ms") for name in ours] == [name.removesuffix("_ms") for name in theirs]


def test_where_reading_goes_on_behind_damage_is_in_an_answer_to_a_fetch_from_version_12_on() -> None:
    sent = PartitionData(partition_index=0, error_code=2, high_watermark=-1, aborted_transactions=None, records=None)
    sent.next_readable_offset = 17
    message = FetchResponse(responses=[FetchableTopicResponse(partitions=[sent])])
    for version, expected in ((11, -1), (12, 17), (18, 17)):
        answer, _ = reader(FetchResponse, version)(encoded(message, version), 0)
        assert answer.responses[0].partitions[0].next_readable_offset == expected
