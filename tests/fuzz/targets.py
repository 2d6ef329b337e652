"""What is fuzzed: each target takes any bytes, and raises only if the product is wrong.

Right is: the bytes are understood, or refused with the error that the contract names; and what was understood says the
same again when it is written and read once more. Memory is bounded by the fuzzer's own limit.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from mainstem.broker.apis import APIS
from mainstem.broker.network.framing import FrameReceiver
from mainstem.broker.network.request_memory import RequestMemory
from mainstem.broker.telemetry.otlp import POINTS_MAX, read_metrics
from mainstem.broker.telemetry.received_metrics import LABEL_ATTRIBUTES, ReceivedMetrics
from mainstem.errors import CorruptBatchError, FrameError, InvalidRecordError, MainstemError
from mainstem.log.partition.mirrored_batches import check_mirrored, mirrored_steps
from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.codec import decode_request, encode_request
from mainstem.record.constants import Compression
from mainstem.record.header import batch_crc, iter_headers, verify
from mainstem.record.reader import ControlType, DecodedRecord, iter_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch
from tests.broker.telemetry.payload import gauge, metrics_data, point, total, whole_point
from tests.log.support import NOW_MS, Node, read_all
from tests.protocol.test_messages import random_struct

Target = Callable[[bytes], None]
_FRAME_BYTES_MAX: Final = 1 << 16
_RECORDS_BYTES_MAX: Final = 1 << 22
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17


def frames(data: bytes) -> None:
    """A request: read, or refused with FrameError; what was read comes out the same when it is written and read."""
    try:
        request = decode_request(data)
    except FrameError:
        return
    written = _encoded(request)
    assert _encoded(decode_request(written)) == written


def _encoded(request: object) -> bytes:
    version, correlation_id = request.api_version, request.correlation_id  # type: ignore[attr-defined]
    body, client_id = request.body, request.client_id  # type: ignore[attr-defined]
    return b"".join(encode_request(body, version, correlation_id=correlation_id, client_id=client_id))[4:]


def streams(data: bytes) -> None:
    """A connection's bytes, cut anywhere: the same frames come out, or the same refusal, as without a cut."""
    step = 1 + (data[0] if data else 0)
    assert _taken_apart(data, step) == _taken_apart(data, len(data) + 1)


def _taken_apart(data: bytes, step: int) -> list[bytes | str]:
    memory = RequestMemory(4 * _FRAME_BYTES_MAX).hold("someone", lambda: None)
    receiver = FrameReceiver(_FRAME_BYTES_MAX, memory, memoryview(bytearray(512)))
    found: list[bytes | str] = []
    at = 0
    while at < len(data):
        room = receiver.writable()
        count = min(step, len(room), len(data) - at)
        room[:count] = data[at : at + count]
        receiver.wrote(count)
        at += count
        try:
            while (frame := receiver.next_frame()) is not None:
                found.append(bytes(frame))
                memory.give_back(len(frame))
        except FrameError as error:
            return [*found, str(error)]
        receiver.release_buffer()
    receiver.close()
    return found


def batches(data: bytes) -> None:
    """Record batches: read, or refused with CorruptBatchError; with their checksums made right, so that the rest is
    reached.
    """
    _read(_sealed(data))


def _read(data: bytes) -> list[DecodedRecord] | None:
    try:
        return list(iter_records(data, limit_bytes=_RECORDS_BYTES_MAX))
    except CorruptBatchError:
        return None


def _is_sound(data: bytes) -> bool:
    """Whether every batch is as a log keeps it: the plain reader alone does not ask for that."""
    try:
        for at, header in iter_headers(data):
            verify(data, at, header)
    except CorruptBatchError:
        return False
    return True


def _sealed(data: bytes) -> bytes:
    """The same batches, each with the checksum that it should have."""
    sealed = bytearray(data)
    try:
        for at, header in iter_headers(data):
            _CRC.pack_into(sealed, at + _CRC_AT, batch_crc(data, at, header))
    except CorruptBatchError:
        return bytes(sealed)
    return bytes(sealed)


def appends(data: bytes) -> None:
    """Bytes as a producer sends them: appended whole and served as they are, or refused without a trace."""
    node = Node()
    sealed = _sealed(data)
    try:
        result = node.log.append(sealed)
    except MainstemError:
        assert node.log.log_end_offset == 0
        assert node.log.size_bytes == 0
        return
    node.log.flush()
    assert (result.base_offset, result.last_offset) == (0, node.log.log_end_offset - 1)
    served = b"".join(bytes(buffer) for buffer in node.log.read(0, 1 << 20).buffers)
    assert len(served) == len(sealed)
    if (records := _read(served)) is not None and records:
        assert [record.offset for record in read_all(node.log)] == [record.offset for record in records]


def mirrored(data: bytes) -> None:
    """Bytes as a mirror sends them: appended as they are, or refused; the log opens again after a power cut."""
    node = Node(mainstem_mirror_of="clusterA/AAAAAAAAAAAAAAAAAAAAAA")
    sealed = _sealed(data)
    try:
        batches = check_mirrored(memoryview(sealed))
        for step, fill_to in mirrored_steps(batches, 0, -1):
            if batches and batches[-1].header.next_offset > 1 << 36:
                return  # only time would be found
            node.log.append_mirrored(step, node.log.log_end_offset, fill_to)
    except MainstemError:
        return
    node.log.flush()
    end = node.log.log_end_offset
    assert node.cut_power_and_start().log_end_offset == end


def metrics(data: bytes) -> None:
    """Metrics of a client: read within the bounds, or refused with InvalidRecordError."""
    try:
        read = read_metrics(memoryview(data), LABEL_ATTRIBUTES)
    except InvalidRecordError:
        return
    assert len(read.points) <= POINTS_MAX
    assert all(set(each.attributes) <= set(LABEL_ATTRIBUTES) for each in read.points)
    ReceivedMetrics(100).take(uuid.UUID(int=2), "c", read.points)


def native(data: bytes) -> None:
    """The native decoder reads what the plain one reads, and refuses what that refuses; it never reads past the end."""
    from mainstem.record.arrow_decode import DecodeOptions, decode

    sealed = _sealed(data)
    plain = _read(sealed)
    options = DecodeOptions(batch_bytes_max=_RECORDS_BYTES_MAX, total_bytes_max=8 * _RECORDS_BYTES_MAX)
    columns = frozenset({"key", "value", "offset", "timestamp", "headers"})
    try:
        decoded = decode(sealed, topic="t", partition=0, start_offset=-(1 << 63), columns=columns, options=options)
    except CorruptBatchError:
        assert not plain or not _is_sound(sealed)
        return
    decoded.arrow_batch.validate(full=True)
    if plain is not None and decoded.consumed_bytes == len(sealed):
        rows = zip(*(decoded.arrow_batch.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True)
        assert list(rows) == [(record.offset, record.key, record.value) for record in plain]


def alarm(data: bytes) -> None:
    """Wrong on purpose, for two bytes that no seed has: proves that what is found is told."""
    assert data[:2] != b"\x7f\x03"


TARGETS: Final[dict[str, Target]] = {
    "frames": frames,
    "streams": streams,
    "batches": batches,
    "appends": appends,
    "mirrored": mirrored,
    "metrics": metrics,
    "native": native,
}


def seeds(name: str) -> Iterator[bytes]:
    """What the fuzzer begins with: sound inputs of the target's kind."""
    rng = random.Random(name)
    if name in ("frames", "streams"):
        for key in map(ApiKey, APIS):
            message = entity(key, _newest(key), True)
            for version in {message.__versions__.first, message.__versions__.last}:
                body = random_struct(message, version, rng)
                yield b"".join(encode_request(body, version, correlation_id=1, client_id="c"))[
                    0 if name == "streams" else 4 :
                ]
        return
    if name == "metrics":
        yield metrics_data(gauge("a", point(1.5, topic="t"), whole_point(-3)), total("b", point(2.0)), group_id="g")
        return
    if name == "mirrored":
        for kind in ControlType:
            yield build_control_batch(kind, producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS)
    for codec in Compression:
        records = [NewRecord(b"k%d" % number, b"v" * number, (("h", b"x"),), NOW_MS) for number in range(5)]
        yield build_batch(records, compression=codec, producer=ProducerStamp(7, 0, 0))
        yield build_batch([NewRecord(None, None, (), NOW_MS)], compression=codec)


def _newest(key: ApiKey) -> int:
    """Some version that is declared: the message tells the others."""
    for version in range(20, -1, -1):
        try:
            entity(key, version, True)
        except FrameError:
            continue
        return version
    raise AssertionError(f"{key.name} has no version")
