"""Record batches for the tests of this package: what hypothesis draws them from, and Kafka's own, as captured bytes."""

from __future__ import annotations

import struct
from pathlib import Path

from crc32c import crc32c
from hypothesis import settings
from hypothesis import strategies as st

from mainstem.record.constants import ATTRIBUTES_AT, CRC_AT, Compression
from mainstem.record.header import BatchHeader, iter_headers, read_header
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, rebuild_batch

DATA = Path(__file__).with_name("data")
CODECS = list(Compression)

repeatable = settings(derandomize=True, deadline=None, max_examples=40)
"""For property tests: the same examples in every run, and no verdict by the clock of a busy machine."""

some_bytes = st.one_of(st.none(), st.binary(max_size=24), st.binary(min_size=70, max_size=90))
record_headers = st.lists(st.tuples(st.text(max_size=8), some_bytes), max_size=3).map(tuple)
timestamps = st.one_of(st.integers(-1, 2**42), st.just(-1))
new_records = st.builds(NewRecord, some_bytes, some_bytes, record_headers, timestamps)
producers = st.one_of(
    st.none(),
    st.builds(
        ProducerStamp, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.booleans()
    ),
)


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0) -> bytes:
    """One batch as producers or compaction leave it."""
    rows = draw(st.lists(new_records, min_size=1, max_size=8))
    batch = build_batch(
        rows,
        base_offset=base_offset,
        compression=draw(st.sampled_from(CODECS)),
        producer=draw(producers),
        log_append_time_ms=draw(st.one_of(st.none(), st.integers(0, 2**42))),
    )
    if draw(st.booleans()):
        return batch
    kept = [(base_offset + delta, row) for delta, row in enumerate(rows) if draw(st.booleans())]
    return rebuild_batch(read_header(batch), kept, delete_horizon_ms=draw(st.one_of(st.none(), st.integers(0, 2**42))))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Some batches one after the other, with ascending offsets and gaps between them."""
    parts: list[bytes] = []
    next_offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        parts.append(draw(batches(next_offset)))
        next_offset = read_header(parts[-1]).next_offset + draw(st.integers(0, 3))
    return b"".join(parts)


def captured(name: str) -> bytes:
    """Segment bytes that a real client and Apache Kafka wrote: ``java``, ``librdkafka`` or ``transactions``."""
    return (DATA / f"{name}.log").read_bytes()


def split(log: bytes) -> list[tuple[BatchHeader, bytes]]:
    """Each whole batch of ``log`` with its header."""
    return [(header, log[at : at + header.size_bytes]) for at, header in iter_headers(log)]


def sample(count: int = 3, **settings: object) -> bytes:
    """A small batch with keys, values and headers."""
    rows = [
        NewRecord(b"key-%d" % n, b"value %d" % n * 3, (("name", b"x"), ("none", None)), 1_700_000_000_000 + n)
        for n in range(count)
    ]
    return build_batch(rows, **settings)  # type: ignore[arg-type]


def resealed(batch: bytes | bytearray) -> bytes:
    """The batch with its checksum made right again, as a writer of nonsense would send it."""
    sealed = bytearray(batch)
    struct.pack_into(">I", sealed, CRC_AT, crc32c(sealed[ATTRIBUTES_AT:]))
    return bytes(sealed)


def with_field(batch: bytes, at: int, code: str, value: int) -> bytes:
    """The batch with one header field set to ``value`` and its checksum made right again."""
    changed = bytearray(batch)
    struct.pack_into(code, changed, at, value)
    return resealed(changed)


def with_payload(batch: bytes, payload: bytes, record_count: int | None = None) -> bytes:
    """The header of ``batch`` over other record bytes, length and checksum made right."""
    changed = bytearray(batch[:61] + payload)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    if record_count is not None:
        struct.pack_into(">i", changed, 57, record_count)
    return resealed(changed)
