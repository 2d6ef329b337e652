"""A lake's SQL in a process of its own (`views.stores.sql.query_process`), as the view host sees it.

The child opens the lake's files itself; they never change. It keeps the records that it received and that are not in a
file yet. A call names the records that it needs (``run`` and their number). If the child lacks some, it raises
RowsMissingError with the number of the first, and the parent repeats the call with the missing records. So each record
is sent once to one child, and only for a query; a child that was started again gets all of them.

Thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from mainstem.errors import UnavailableError
from mainstem.views.requests import Request
from mainstem.views.stores.lake.lake_queries import (
    GatheredRows,
    LakeDatabase,
    LakeFileList,
    LakeSnapshot,
    LakeTableDefinition,
)
from mainstem.views.stores.sql.query_process import Channel, IsolatedSnapshot, QueryProcess, answer_within_s
from mainstem.views.stores.store import Answer, Bookmark

_State: TypeAlias = tuple[LakeFileList, GatheredRows]
_CHUNKS_MAX: Final = 32


class RowsMissingError(UnavailableError):
    """The child lacks the gathered records from number ``args[0]`` on. Never leaves this module."""


class IsolatedLake:
    """The parent's end. The methods are those of `views.stores.lake.lake_queries.LakeDatabase`."""

    def __init__(self, path: Path, definition: LakeTableDefinition) -> None:
        self._process = QueryProcess(f"lake in {path}", ServedLake, definition)

    def snapshot(self, files: LakeFileList, gathered: GatheredRows, bookmark: Bookmark) -> IsolatedSnapshot:
        """As LakeDatabase's. Raises UnavailableError."""

        def take(channel: Channel) -> IsolatedSnapshot:
            _call(channel.call, "snapshot", state=(files, gathered))
            return IsolatedSnapshot(channel, bookmark, "Lake")

        return self._process.snapshot(take)

    def answer(self, request: Request, files: LakeFileList, gathered: GatheredRows, bookmark: Bookmark) -> Answer:
        """The answer of a snapshot, in one call. Raises UnavailableError."""
        within_s = answer_within_s(request, "Lake")

        def ask(call: Callable[..., Any]) -> Answer:
            rows, _ = _call(call, "answer", request, state=(files, gathered), within_s=within_s)
            return Answer(rows, bookmark.position)

        return self._process.read(ask)

    def close(self) -> None:
        """End the child."""
        self._process.close()


class ServedLake:
    """The child's end. Thread-safe."""

    state = ""

    def __init__(self, definition: LakeTableDefinition) -> None:
        self._database = LakeDatabase(definition)
        self._kept = (0, definition.schema.empty_table())

    def snapshot(self, files: LakeFileList, run: int, rows: int, first: int, sent: bytes) -> LakeSnapshot:
        """The state over ``files`` and the first ``rows`` gathered records of ``run``.

        ``sent``: those from number ``first`` on, as an Arrow stream. Raises RowsMissingError.
        """
        kept_run, kept = self._kept
        if kept_run != run:
            kept = kept.slice(0, 0)
        if len(kept) < first:
            raise RowsMissingError(len(kept))
        if len(kept) < rows:
            with pa.ipc.open_stream(sent) as stream:
                kept = pa.concat_tables([kept, stream.read_all().slice(len(kept) - first)])
            if kept.column(0).num_chunks > _CHUNKS_MAX:
                kept = kept.combine_chunks()  # DuckDB reads chunk by chunk
            self._kept = (run, kept)
        return self._database.snapshot(files, GatheredRows(run, (kept.slice(0, rows),)), Bookmark())

    def close(self) -> None:
        """Does nothing: the process ends next."""


def _call(call: Callable[..., Any], name: str, *arguments: Any, state: _State, within_s: float | None = None) -> Any:
    """A call over a state, repeated with the gathered records that the child lacks."""
    files, gathered = state
    rows = first = gathered.rows
    while True:
        sent = _stream(gathered.from_row(first))
        try:
            return call(name, *arguments, files, gathered.run, rows, first, sent, within_s=within_s)
        except RowsMissingError as missing:
            [lacking] = missing.args
            first = lacking if first == rows else 0  # another call may have changed what the child keeps


def _stream(parts: list[pa.Table]) -> bytes:
    if not parts:
        return b""
    table = pa.concat_tables(parts).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
