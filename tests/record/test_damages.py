"""Every damage in docs/internals/record-format.md, done to a batch and shown to both readers.

``caught`` damages must give CorruptBatchError from both; ``outside`` ones lie outside the checksum and read as a valid
batch that stands elsewhere; ``tail`` ones look like a batch that is still being written.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError
from mainstem.record.arrow_columns import COLUMNS
from mainstem.record.arrow_decode import DecodeOptions, decode
from mainstem.record.constants import Compression
from mainstem.record.header import iter_headers, verify
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, build_batch, varint
from tests.record.batches import CODECS, batches, repeatable, resealed, sample, with_field, with_payload

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "record-format.md"
BATCH = sample(3)
Damage = Callable[[], bytes]
Row = tuple[int, bytes | None, bytes | None, tuple]


def _flipped(at: int) -> Damage:
    return lambda: BATCH[:at] + bytes((BATCH[at] ^ 0x40,)) + BATCH[at + 1 :]


def _field(at: int, code: str, value: int, *, sealed: bool = True) -> Damage:
    def damage() -> bytes:
        changed = bytearray(BATCH)
        struct.pack_into(code, changed, at, value)
        return resealed(changed) if sealed else bytes(changed)

    return damage


def _record(*fields: int | bytes, size: int | None = None) -> Damage:
    """A batch of one record of these fields, resealed; numbers become varints. The size is right unless given."""
    body = b"\x00" + b"".join(varint(field) if isinstance(field, int) else field for field in fields)
    payload = varint(len(body) if size is None else size) + body
    return lambda: with_payload(sample(1), payload, 1)


def _payload(change: Callable[[bytes], bytes], codec: Compression = Compression.NONE) -> Damage:
    batch = sample(3, compression=codec)
    return lambda: with_payload(batch, change(batch[61:]))


_TOO_LONG = b"\xff" * 10 + b"\x01"
_EMPTY_RECORD = varint(6) + b"\x00" + varint(0) * 2 + varint(-1) * 2 + varint(0)

DAMAGES: dict[str, tuple[str, Damage]] = {
    # name in the page: what becomes of it, the damage
    "base offset: flipped": ("outside", _field(0, ">q", 77, sealed=False)),
    "base offset: negative": ("caught", _field(0, ">q", -1, sealed=False)),
    "base offset: no room for the last offset": ("caught", _field(0, ">q", 2**63 - 2, sealed=False)),
    "batch length: shorter": ("caught", _field(8, ">i", len(BATCH) - 13, sealed=False)),
    "batch length: under a header's": ("caught", _field(8, ">i", 48, sealed=False)),
    "batch length: negative": ("caught", _field(8, ">i", -1, sealed=False)),
    "batch length: longer than what is there": ("tail", _field(8, ">i", len(BATCH), sealed=False)),
    "leader epoch: flipped": ("outside", _flipped(12)),
    "magic: another": ("caught", _field(16, ">b", 1, sealed=False)),
    "checksum: flipped": ("caught", _flipped(17)),
    "attributes: flipped": ("caught", _flipped(22)),
    "attributes: codec that does not exist": ("caught", _field(21, ">h", 5)),
    "attributes: codec of other bytes": ("caught", _field(21, ">h", Compression.ZSTD)),
    "last offset delta: flipped": ("caught", _flipped(26)),
    "last offset delta: negative": ("caught", _field(23, ">i", -1)),
    "last offset delta: less than the records need": ("caught", _field(23, ">i", 1)),
    "timestamps: flipped": ("caught", _flipped(34)),
    "timestamps: sum over 63 bits": ("caught", _field(27, ">q", 2**63 - 1)),
    "producer: flipped": ("caught", _flipped(50)),
    "record count: flipped": ("caught", _flipped(60)),
    "record count: negative": ("caught", _field(57, ">i", -1)),
    "record count: inflated": ("caught", _field(57, ">i", 2**31 - 1)),
    "record count: fewer than there are": ("caught", _field(57, ">i", 2)),
    "records: flipped": ("caught", _flipped(70)),
    "records: cut off": ("caught", _payload(lambda payload: payload[:-1])),
    "records: bytes after the last": ("caught", _payload(lambda payload: payload + b"\x00")),
    "records: compressed bytes cut off": ("caught", _payload(lambda payload: payload[:-3], Compression.LZ4)),
    "records: compressed bytes replaced": ("caught", _payload(lambda payload: b"\x00" * 40, Compression.GZIP)),
    "record length: negative": ("caught", _record(0, 0, -1, -1, 0, size=-1)),
    "record length: under the smallest": ("caught", _record(0, 0, -1, -1, 0, size=5)),
    "record length: inflated": ("caught", _record(0, 0, -1, -1, 0, size=2**31 - 1)),
    "record length: 64 bits": ("caught", _record(0, 0, -1, -1, 0, size=2**63 - 1)),
    "record: a number of more than 64 bits": ("caught", _record(_TOO_LONG, 0, -1, -1, 0)),
    "record: a number that never ends": ("caught", _record(0, 0, -1, -1, b"\xff\xff")),
    "offset delta: over the last": ("caught", _record(0, 1, -1, -1, 0)),
    "offset delta: negative": ("caught", _record(0, -1, -1, -1, 0)),
    "offset delta: repeated": ("caught", lambda: with_payload(sample(2), _EMPTY_RECORD * 2, 2)),
    "key length: inflated": ("caught", _record(0, 0, 2**31 - 1, b"k", -1, 0)),
    "key length: below -1": ("caught", _record(0, 0, -2, -1, 0)),
    "value length: inflated": ("caught", _record(0, 0, -1, 100, b"v", 0)),
    "value length: below -1": ("caught", _record(0, 0, -1, -2, 0)),
    "value length: short of the record": ("caught", _record(0, 0, -1, 1, b"vvv", 0)),
    "header count: negative": ("caught", _record(0, 0, -1, -1, -1)),
    "header count: inflated": ("caught", _record(0, 0, -1, -1, 2**31 - 1)),
    "header count: fewer than there are": ("caught", _record(0, 0, -1, -1, 1, 1, b"a", -1, 1, b"b", -1)),
    "header name: null": ("caught", _record(0, 0, -1, -1, 1, -1, -1)),
    "header name: inflated": ("caught", _record(0, 0, -1, -1, 1, 50, b"a", -1)),
    "header value: inflated": ("caught", _record(0, 0, -1, -1, 1, 1, b"a", 50)),
    "header value: below -1": ("caught", _record(0, 0, -1, -1, 1, 1, b"a", -2)),
}


def _plain(log: bytes, *, verify_crc: bool = True) -> list[Row]:
    rows: list[Row] = []
    log = log if verify_crc else resealed(log)
    for at, header in iter_headers(log):
        verify(log, at, header)
        records = [] if header.is_control else read_records(log[at : at + header.size_bytes])
        rows += [(record.offset, record.key, record.value, record.headers) for record in records]
    return rows


def _native(log: bytes | memoryview, *, verify_crc: bool = True) -> list[Row]:
    options = DecodeOptions(verify_crc=verify_crc)
    decoded = decode(log, topic="t", partition=0, start_offset=-1, columns=COLUMNS, options=options).arrow_batch
    decoded.validate(full=True)
    headers = [tuple((h["key"], h["value"]) for h in row or ()) for row in decoded.column("headers").to_pylist()]
    columns = [decoded.column(name).to_pylist() for name in ("offset", "key", "value")]
    return list(zip(*columns, headers, strict=True))


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("read", [_plain, _native])
def test_a_damage_is_caught_or_known_to_be_harmless(name: str, read: Callable[[bytes], list[Row]]) -> None:
    outcome, damage = DAMAGES[name]
    damaged = damage()
    if outcome == "caught":
        with pytest.raises(CorruptBatchError):
            read(damaged)
    else:
        assert len(read(damaged)) == (3 if outcome == "outside" else 0)


def test_the_page_lists_every_damage_with_what_becomes_of_it() -> None:
    rows = re.findall(r"^\| ([a-z ]+: [^|]+?) \| (caught|outside|tail)\b", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == {name: outcome for name, (outcome, _) in DAMAGES.items()}


@pytest.mark.parametrize("codec", CODECS)
def test_every_bit_under_the_checksum_is_guarded(codec: Compression) -> None:
    batch = sample(1, compression=codec)
    for at in range(16, len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(CorruptBatchError):
            _native(bytes(damaged))


def _outcome(read: Callable[..., list[Row]], log: bytes) -> object:
    try:
        return read(log, verify_crc=False)
    except CorruptBatchError:
        return "corrupt"


@settings(repeatable, max_examples=150)
@given(batch=batches(), data=st.data())
def test_the_native_decoder_accepts_what_the_plain_reader_does_whatever_a_writer_sends(
    batch: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.one_of(st.integers(16, len(batch) - 1), st.integers(16, min(len(batch) - 1, 90))))
        damaged[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])))
    assert _outcome(_native, bytes(damaged)) == _outcome(_plain, bytes(damaged))


def _before_a_forbidden_page(log: bytes, region: mmap.mmap) -> memoryview:
    """A view of ``log`` whose next byte, at the start of the second page, may not be read."""
    start = mmap.PAGESIZE - len(log)
    region[start : mmap.PAGESIZE] = log
    return memoryview(region)[start : mmap.PAGESIZE]


def test_hostile_bytes_never_make_it_read_past_the_buffer() -> None:
    region = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    source = random.Random(11)
    whole = build_batch([NewRecord(b"key", b"value", (("name", b"x"),), n) for n in range(4)])
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(source.randint(1, 5)):
            damaged[source.randrange(len(whole))] = source.choice((0, 1, 0x3F, 0x7E, 0x7F, 0x80, 0xFE, 0xFF))
        log = bytes(damaged[: source.randint(50, len(whole))]) if source.random() < 0.3 else bytes(damaged)
        _outcome(_native, _before_a_forbidden_page(log, region))


def test_a_field_may_be_damaged_in_any_way_if_the_writer_seals_it() -> None:
    for at in range(21, 61):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            damaged = with_field(BATCH, at, ">B", value)
            assert _outcome(_native, damaged) == _outcome(_plain, damaged)
