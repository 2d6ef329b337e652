"""The check of the records in a Produce request: at once when it is fast, else in a thread.

Work longer than a millisecond or two never runs on the event loop: large batches, compressed batches, and batches that
must be recompressed. A connection has at most one batch in the threads, so a client that sends expensive batches delays
others by one batch, not by all of its own.

The native record walker is loaded at the start, in a millisecond. If there is none for this machine, the first log that
checks many records compiles it if it can, in a thread and a separate process. The plain reader serves without it.

``only_batch`` holds the rules of the request: one whole batch for a partition, of the current format.

Concurrency: the event loop only, but for the checks in their threads.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from mainstem.broker.error_codes import refusal
from mainstem.broker.storage.subject_schemas import SubjectSchemas
from mainstem.broker.storage.topics import Topics
from mainstem.errors import CorruptBatchError, InvalidRecordError, MainstemError
from mainstem.log.partition.append_validation import AppendCheck, CheckedAppend
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.record.constants import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX,
    MAGIC,
    MAGIC_AT,
    Compression,
)
from mainstem.record.record_check import is_native_loaded, load_kept, load_native

if TYPE_CHECKING:
    from mainstem.broker.storage.schema_contents import SchemaContents

_THREADS: Final = 2
_LENGTH = struct.Struct(">i")
_UP_TO_MAGIC_BYTES: Final = MAGIC_AT + 1
_LENGTH_MIN: Final = 14
"""The smallest length of a batch in any of Kafka's formats."""
_ZSTD_FROM: Final = 7
_PLAIN_RECORDS: Final = 2_000
"""After so many records the native walker is compiled if this machine has none; it takes some seconds, once."""


_OFFSET_0: Final = bytes(BATCH_LENGTH_AT)

T = TypeVar("T")
Outcome: TypeAlias = CheckedAppend | MainstemError


class AppendChecks:
    """The checks of one node."""

    def __init__(self, topics: Topics) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="append-check")
        self._schemas = SubjectSchemas(topics, self._threads)
        self._contents: SchemaContents | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._plain_records = 0
        load_kept()
        self._may_load = not is_native_loaded()

    def begin(self, log: PartitionLog, records: memoryview) -> Outcome | AppendCheck:
        """Check the records if that is fast; else return the check, for ``finish``."""
        if records[:BATCH_LENGTH_AT] != _OFFSET_0:
            return InvalidRecordError("a produced record batch begins at offset 0: the log assigns the offsets")
        try:
            check = log.start_append(records)
            if check.needs_frames:
                check.frames = self._schemas.check_if_known(log.topic_partition.topic, check.config)
            checked = check.run_if_quick()
        except MainstemError as error:
            return _without_frames(error)
        if self._may_load:
            self._plain_records += _PLAIN_RECORDS if checked is None else checked.sent[0].record_count
            if self._plain_records >= _PLAIN_RECORDS:
                self._may_load = False
                threading.Thread(target=load_native, name="append-check-load", daemon=True).start()
        return check if checked is None else checked

    async def finish(self, log: PartitionLog, check: AppendCheck) -> Outcome:
        """Run a check in a thread, when the schemas that it needs are read; then that of the content, if asked for."""
        try:
            if check.needs_frames:
                check.frames = await self._schemas.load(log.topic_partition.topic, check.config)
            checked = await asyncio.get_running_loop().run_in_executor(self._threads, check.run)
            if check.needs_content_check:
                await self.contents.require_fit(check)
            return checked
        except MainstemError as error:
            return _without_frames(error)

    @property
    def contents(self) -> SchemaContents:
        """The content checks; most nodes need them never."""
        if self._contents is None:
            from mainstem.broker.storage.schema_contents import SchemaContents

            self._contents = SchemaContents(self._schemas)
        return self._contents

    def shielded(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run the rest of a request that has slow checks. It goes on if its connection ends, which cancels the result.

        So records that were sent with acks=0 are appended, although their producer has closed the connection.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def stop(self) -> None:
        """Drop checks that have not begun, and wait for the rest."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._end_contents()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end_contents()  # of a check whose frames were looked at until now

    async def _end_contents(self) -> None:
        if self._contents is not None:
            await self._contents.end()


def _without_frames(error: MainstemError) -> MainstemError:
    """Drop the frames of a traceback, which hold the decompressed records, as long as the request is worked on."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__context__
    return error


def only_batch(records: object, version: int) -> memoryview:
    """Return the one batch for a partition. As in Kafka, an incomplete batch after it is ignored.

    Raises InvalidRecordError, CorruptBatchError, RemoteError (UNSUPPORTED_COMPRESSION_TYPE).
    """
    if not isinstance(records, memoryview) or (size := _batch_bytes(records)) is None:
        raise InvalidRecordError("a produce request holds one whole record batch for each partition, but there is none")
    if records[MAGIC_AT] != MAGIC:
        raise InvalidRecordError(f"record batches have magic {MAGIC}, not {records[MAGIC_AT]}")
    if size < HEADER_BYTES:
        raise CorruptBatchError(f"a record batch of {size} bytes, which is less than its header has")
    is_zstd = records[ATTRIBUTES_AT + 1] & COMPRESSION_MASK == Compression.ZSTD
    if is_zstd and version < _ZSTD_FROM:
        raise refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {_ZSTD_FROM} or later")
    if size < len(records) and _batch_bytes(records[size:]) is not None:
        raise InvalidRecordError("a produce request holds one record batch for each partition, but there are several")
    return records if size == len(records) else records[:size]


def _batch_bytes(records: memoryview) -> int | None:
    """Return the size of the whole batch at the beginning; None when there is none. Raises CorruptBatchError."""
    if len(records) < _UP_TO_MAGIC_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(records, BATCH_LENGTH_AT)
    if length < _LENGTH_MIN:
        raise CorruptBatchError(f"a record batch of length {length}")
    if records[MAGIC_AT] > MAGIC:
        raise CorruptBatchError(f"a record batch of magic {records[MAGIC_AT]}")
    return LENGTH_PREFIX + length if LENGTH_PREFIX + length <= len(records) else None
