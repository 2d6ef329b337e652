"""Requests that are nearly right: random ones of an API, changed in their structure or in their bytes.

What is changed is what readers and handlers may trust: sizes, counts, nulls, names that come again, extreme numbers,
unknown tags, ends that come too early. Everything follows from the random generator that is given.

Repeats are references to one item, which cost nothing; a few of them inside each other would be gigabytes when they are
encoded. So a request is weighed first, and one of more than ``_BYTES_MAX`` is never encoded.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from mainstem.errors import FrameError, InputError
from mainstem.protocol.codec import decode_request, encode_request
from mainstem.protocol.compiler import uvarint
from mainstem.protocol.schema import Field, Struct
from tests.broker.test_fuzz import CALM, random_request

_BOUNDS: Final = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}
_NAMES: Final = ("", "t", "t" * 249, "t" * 250, "x" * 32_767, "x" * 32_768, "\x00", "ä" * 9_000, "..", "*", "a\nb")
_REPEATS: Final = (2, 3, 100, 3_000)
_BYTES_MAX: Final = 512 * 1024


def mutated_frame(key: int, version: int, rng: random.Random) -> bytes:
    """A request of this API and version, with its length in front, that differs from a right one in a few places."""
    body = random_request(key, version, rng)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        _change_struct(body, version, rng)
    for name, value in CALM.items():
        if hasattr(body, name):
            setattr(body, name, value)
    if getattr(body, "acks", 1) == 0:
        body.acks = 1  # which has no answer
    for topic in getattr(body, "topics", None) or ():
        for name in ("num_partitions", "count"):
            if hasattr(topic, name):
                setattr(topic, name, min(getattr(topic, name), 5))
    if _outweighs(body, version, _BYTES_MAX):
        return mutated_frame(key, version, rng)
    try:
        data = b"".join(encode_request(body, version, correlation_id=1, client_id="fuzz"))
    except (InputError, OverflowError, AttributeError, TypeError):
        return mutated_frame(key, version, rng)  # what this version cannot say
    if len(data) > _BYTES_MAX:
        return mutated_frame(key, version, rng)
    frame = _change_bytes(data, version in body.__flexible__, rng)
    return mutated_frame(key, version, rng) if _asks_for_no_answer(frame) else frame


def _asks_for_no_answer(frame: bytes) -> bool:
    """Whether damage has made a Produce request one with acks=0."""
    try:
        return getattr(decode_request(frame[4:]).body, "acks", None) == 0
    except FrameError:
        return False  # it is refused


def _outweighs(body: Struct, version: int, most: int) -> bool:
    """Whether it takes more than ``most`` bytes; the walk ends as soon as that is certain."""
    return sum(islice(_bytes_of(body, version), most + 1)) > most


def _bytes_of(value: Any, version: int) -> Iterator[int]:
    """How many bytes each part takes at least, none less than one. A tagged field that has its default takes none."""
    if isinstance(value, Struct):
        yield 1
        for field in value.__fields__:
            held = getattr(value, field.name)
            if version in field.versions and (version not in field.tagged or held != field.default_value()):
                yield from _bytes_of(held, version)
    elif isinstance(value, (list, tuple)):
        yield 1
        for item in value:
            yield from _bytes_of(item, version)
    else:
        yield 1 + (len(value) if isinstance(value, (str, bytes)) else 0)


def _change_struct(body: Struct, version: int, rng: random.Random) -> None:
    """Change one field, here or in a struct that is held."""
    fields = [field for field in body.__fields__ if version in field.versions]
    if not fields:
        return
    field = rng.choice(fields)
    value = getattr(body, field.name)
    if field.kind == "array" and value and rng.random() < 0.6:
        _change_struct(rng.choice(list(value)), version, rng)
    elif field.kind == "struct" and value is not None and rng.random() < 0.8:
        _change_struct(value, version, rng)
    else:
        setattr(body, field.name, _changed(field, value, version, rng))


def _changed(field: Field, value: Any, version: int, rng: random.Random) -> Any:
    if version in field.nullable and rng.random() < 0.2:
        return None
    if field.kind in _BOUNDS:
        bits = _BOUNDS[field.kind]
        low = 0 if field.kind.startswith("u") else -(1 << bits)
        return rng.choice((low, low + 1, max(low, -1), 0, 1, (1 << bits) - 1))
    if field.kind == "string":
        return rng.choice(_NAMES)
    if field.kind in ("bytes", "records"):
        return rng.choice((b"", b"\x00", rng.randbytes(100), bytes(100_000)))
    if field.kind.startswith("array"):
        items = list(value or ())
        if field.kind == "array:string" and rng.random() < 0.5:
            return [f"name-{number}" for number in range(rng.choice(_REPEATS))]
        return items[:1] * rng.choice((0, *_REPEATS))
    return value


def _change_bytes(data: bytes, is_flexible: bool, rng: random.Random) -> bytes:
    """The same bytes, or some that are damaged behind the header, under a length that is right for them."""
    body = bytearray(data[4:])
    first = min(len(body), 14)
    kind = rng.choice(("as it is", "as it is", "a byte", "a count", "cut", "longer", "tags"))
    if kind == "a byte" and len(body) > first:
        body[rng.randrange(first, len(body))] = rng.randrange(256)
    elif kind == "a count" and len(body) > first + 4:
        at = rng.randrange(first, len(body) - 4)
        body[at : at + 4] = rng.choice(
            (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x10\x00\x00", b"\xff\xff\xff\x7f")
        )
    elif kind == "cut" and len(body) > first:
        del body[rng.randrange(first, len(body)) :]
    elif kind == "longer":
        body += rng.randbytes(rng.choice((1, 100, 10_000)))
    elif kind == "tags" and is_flexible and body[-1:] == b"\x00":
        count = rng.choice((1, 100, 9_999, 10_001))
        body[-1:] = uvarint(count) + b"".join(uvarint(1_000 + number) + b"\x00" for number in range(count))
    return struct.pack(">i", len(body)) + bytes(body)
