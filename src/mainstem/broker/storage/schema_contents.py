"""The check that keys and values fit the schemas that they name, for topics with mainstem.schema.validation.content.

A separate process reads them (``encodings.content.content_worker``): readers of Avro, JSON Schema and Protobuf hold
Python's interpreter lock, so in a thread of the log process they would delay each turn of the event loop by
milliseconds. The process starts with the first append that needs it, and ends after some idle time.

One append, step by step:

1. The process gets the batch, and answers with the frames in it.
2. It gets the schemas that these frames name. Those that it has already are named by their global id alone.
3. It answers with the records that do not fit, and why.

Failures: a process that dies is started again for the same append, once; then, as when it cannot be started, the
append is answered with an error that clients retry (KAFKA_STORAGE_ERROR). An append whose check takes longer than
``_CHECK_S`` is refused. Nothing is appended unchecked.

Concurrency: the event loop only. One append is checked at a time, in the order of their arrival.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mainstem.broker.error_codes import refusal
from mainstem.broker.storage.compaction import start_worker
from mainstem.broker.storage.schema_frames import SchemaFrameCheck
from mainstem.broker.storage.subject_schemas import SubjectSchemas
from mainstem.errors import InvalidRecordError, UnavailableError
from mainstem.log.partition.append_validation import AppendCheck, refuse_records
from mainstem.protocol.errors import ErrorCode

_LOG: Final = logging.getLogger("mainstem.broker.schemas")
_WORKER: Final = "mainstem.encodings.content.content_worker"
_WORKER_IDLE_S: Final = 300.0
_CHECK_S: Final = 30.0
_KNOWN_MAX: Final = 500
_SCHEMA_BYTES_MAX: Final = 32 << 20
"""So many schemas, and bytes of their texts, a process keeps; then a new one takes its place. As many bytes one append
may need: a schema that was read takes many times its text.
"""


class SchemaContents:
    """The content checks of one node. The module's docstring has the contract."""

    def __init__(self, schemas: SubjectSchemas) -> None:
        self._schemas = schemas
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._known: set[str] = set()  # global ids of the schemas that the process has
        self._known_bytes = 0
        self._idle: asyncio.TimerHandle | None = None
        self._is_ended = False

    @property
    def pid(self) -> int | None:
        """Return the id of the running process, or None."""
        return None if self._process is None else self._process.pid

    async def require_fit(self, check: AppendCheck) -> None:
        """Check one append, whose frames have been checked.

        Raises InvalidRecordError, RemoteError (POLICY_VIOLATION: a library is missing here), UnavailableError.
        """
        frames = check.frames
        assert isinstance(frames, SchemaFrameCheck)
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                async with asyncio.timeout(_CHECK_S):
                    refused = await self._refused(check, frames)
            except TimeoutError:
                raise InvalidRecordError(
                    f"its records could not be checked by their schemas within {_CHECK_S:.0f} s: send smaller batches"
                ) from None
            finally:
                self._idle = asyncio.get_running_loop().call_later(_WORKER_IDLE_S, self._end_idle)
        refuse_records(refused)

    async def end(self) -> None:
        """Kill the process, whatever it does; none is started any more."""
        self._is_ended = True
        if self._idle is not None:
            self._idle.cancel()
        await self._kill()

    async def _refused(self, check: AppendCheck, frames: SchemaFrameCheck) -> Mapping[int, str]:
        try:
            return await self._ask(check, frames)
        except UnavailableError as error:
            _LOG.warning("%s: it is started again", error)
        return await self._ask(check, frames)

    async def _ask(self, check: AppendCheck, frames: SchemaFrameCheck) -> Mapping[int, str]:
        """Ask the process. Raises UnavailableError when it cannot be started, or dies."""
        parts = [part for part, taken in (("key", frames.key), ("value", frames.value)) if taken is not None]
        limit_bytes = check.config.mainstem_max_decompressed_bytes
        try:
            process = await self._started()
            head = {"parts": parts, "bytes": len(check.data), "limit_bytes": limit_bytes}
            found = await self._answer(process, _line(head), check.data)
            schemas = await self._schemas_of(frames, found["frames"])
            # In a thread: the schemas may have many megabytes.
            answer = await self._answer(process, await asyncio.to_thread(_line, schemas))
            if "missing" not in answer:
                self._known.update(each["guid"] for each in schemas.values())
                return {int(index): str(reason) for index, reason in answer["refused"].items()}
        except (asyncio.CancelledError, InvalidRecordError):
            await self._kill()  # or its answer would be taken for that to the next append
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # what it says makes no sense
            await self._kill()
            raise UnavailableError(f"the process that reads values by their schemas: {error!r}") from error
        raise refusal(ErrorCode.POLICY_VIOLATION, f"mainstem.schema.validation.content=true: {answer['missing']}")

    async def _schemas_of(self, frames: SchemaFrameCheck, named: list[str]) -> dict[str, dict[str, Any]]:
        """The schemas that frames name, by frame, as they are sent to the process. Raises InvalidRecordError."""
        sent: dict[str, dict[str, Any]] = {}
        new: set[str] = set()
        left_bytes = _SCHEMA_BYTES_MAX
        for frame in named:
            named_schema = frames.schema_of(bytes.fromhex(frame))
            if named_schema is None:
                raise ValueError(f"an unknown frame {frame}")
            guid, stored = named_schema
            sent[frame] = {"guid": guid}
            if guid in self._known or guid in new:
                continue
            new.add(guid)
            records = await self._schemas.records_of(stored, left_bytes)
            if records is None:
                raise InvalidRecordError(
                    f"the schemas that its records name have more than {_SCHEMA_BYTES_MAX} bytes: "
                    "send records of fewer schemas in one batch"
                )
            sent[frame]["records"] = records
            left_bytes -= sum(len(value) for _, value in records)
        self._known_bytes += _SCHEMA_BYTES_MAX - left_bytes
        return sent

    async def _started(self) -> asyncio.subprocess.Process:
        if self._is_ended:
            raise OSError("the log is stopping")
        if len(self._known) > _KNOWN_MAX or self._known_bytes > _SCHEMA_BYTES_MAX:
            await self._kill()
        if self._process is None:
            self._process = await start_worker(_WORKER)
        return self._process

    async def _answer(self, process: asyncio.subprocess.Process, *sent: bytes | memoryview) -> dict[str, Any]:
        """The answer to what is sent. Raises OSError, ValueError."""
        assert process.stdin is not None
        assert process.stdout is not None
        for each in sent:
            process.stdin.write(each)
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ValueError(f"it ended with code {await process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _forget(self) -> asyncio.subprocess.Process | None:
        process, self._process = self._process, None
        self._known.clear()
        self._known_bytes = 0
        return process

    def _end_idle(self) -> None:
        """Close its standard input, with which it ends."""
        process = self._forget()
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def _kill(self) -> None:
        process = self._forget()
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _line(sent: dict[str, Any]) -> bytes:
    return json.dumps(sent).encode() + b"\n"
