"""Frames: where a value says which schema it was written with, as Confluent's serializers say it.

A value begins with a zero and four bytes, the schema's id in the default context; or with a one and sixteen bytes, the
schema's global id. The seventeen bytes may stand in the header ``__value_schema_id`` instead, and the value is then
bare; ``with_frames`` puts them in front, so that all other code knows one place. Pure functions.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.record.native.native_decode import copy_fields
from mainstem.schemas_topic.frames import GUID_FRAME_BYTES, ID_FRAME_BYTES, VALUE_HEADER, header_frame

SchemaId: TypeAlias = int | uuid.UUID
"""The id in the default context, or the global id."""


class Framed(NamedTuple):
    """Values of one schema: the numbers of their rows, the id (None: no frame), the bytes of the frame."""

    rows: Any
    schema_id: SchemaId | None
    frame_bytes: int


def schema_id_of(value: bytes) -> tuple[SchemaId | None, int]:
    """The id in a value's frame, and the bytes of the frame; None and 0 without one."""
    if value[:1] == b"\x00" and len(value) >= ID_FRAME_BYTES:
        return int.from_bytes(value[1:ID_FRAME_BYTES], "big"), ID_FRAME_BYTES
    if value[:1] == b"\x01" and len(value) >= GUID_FRAME_BYTES:
        return uuid.UUID(bytes=value[1:GUID_FRAME_BYTES]), GUID_FRAME_BYTES
    return None, 0


def with_frames(values: pa.Array, headers: pa.Array, name: str = VALUE_HEADER) -> pa.Array:
    """The values (or keys), with the frames that stand in headers of this name in front. A tombstone stays one."""
    if headers.null_count == len(headers):
        return values
    found = {}
    for row in np.flatnonzero(np.asarray(headers.is_valid())).tolist():
        frame = header_frame(((each["key"], each["value"]) for each in headers[row].as_py()), name)
        if frame is not None and values[row].is_valid:
            found[row] = frame + values[row].as_py()
    if not found:
        return values
    mask = np.zeros(len(values), np.bool_)
    mask[list(found)] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.array(found.values(), pa.binary()))


def without_frames(headers: pa.Array, *names: str) -> pa.Array:
    """The headers without those of these names: of keys and values that are text and JSON by now."""
    kept = [
        None if each is None else [pair for pair in each if pair["key"] not in names] for each in headers.to_pylist()
    ]
    return pa.array(kept, headers.type)


def behind_frames(values: pa.Array, frame_bytes: int) -> pa.Array:
    """The values (none null) without their first bytes; each has as many. Arrow's own slice of bytes needs an end."""
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.diff(at) - frame_bytes, out=ends[1:])
    target = np.empty(int(ends[-1]), np.uint8)
    source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    source.flags.writeable = False
    copy_fields(source, np.ascontiguousarray(at[:-1] + frame_bytes), ends, target)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(target)])


def by_schema(values: pa.Array) -> list[Framed]:
    """The rows of values (binary, none null), grouped by the schema that their frames name."""
    _, offsets, data = values.buffers()
    count = len(values)
    at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts, sizes = at[:-1], np.diff(at)
    first = np.full(count, 255, np.uint8)
    first[sizes > 0] = source[starts[sizes > 0]]
    is_id = (first == 0) & (sizes >= ID_FRAME_BYTES)
    ids = np.full(count, -1, np.int64)
    places = starts[is_id]
    number = np.zeros(len(places), np.int64)
    for byte in range(1, ID_FRAME_BYTES):
        number = number << 8 | source[places + byte]
    ids[is_id] = number
    is_guid = (first == 1) & (sizes >= GUID_FRAME_BYTES)
    groups: list[Framed] = []
    for number_of in np.unique(ids[is_id]).tolist():
        groups.append(Framed(np.flatnonzero(ids == number_of), number_of, ID_FRAME_BYTES))
    guids: dict[uuid.UUID, list[int]] = {}
    for row in np.flatnonzero(is_guid).tolist():
        guids.setdefault(uuid.UUID(bytes=bytes(source[starts[row] + 1 : starts[row] + GUID_FRAME_BYTES])), []).append(
            row
        )
    groups += [Framed(np.array(rows), guid, GUID_FRAME_BYTES) for guid, rows in guids.items()]
    bare = np.flatnonzero(~is_id & ~is_guid)
    return [*groups, Framed(bare, None, 0)] if len(bare) or not groups else groups
