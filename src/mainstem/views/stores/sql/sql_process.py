"""A SQL table in a process of its own (`views.stores.sql.query_process`), as the view host sees it.

A child that ended is started again by the next call. Committed data is in the file: a write whose child ended is
written again, unless its bookmark is there already.

Thread-safe, except that one thread at a time writes, as in `views.stores.store`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import StorageError
from mainstem.views.requests import Request
from mainstem.views.stores.sql.query_process import (
    ATTEMPTS,
    Channel,
    ChildEndedError,
    IsolatedSnapshot,
    QueryProcess,
    answer_within_s,
    unavailable,
)
from mainstem.views.stores.sql.served_table import ServedTable
from mainstem.views.stores.sql.sql_table import TableDefinition
from mainstem.views.stores.store import Answer, Bookmark, Bucket, Row

_LOG = logging.getLogger("mainstem.views")


class IsolatedTable:
    """The parent's end. The methods are those of `views.stores.sql.sql_table.SqlTable`."""

    def __init__(self, path: Path, definition: TableDefinition) -> None:
        self._path = path
        self._process = QueryProcess(f"SQL store in {path}", ServedTable, path, definition)
        self.bookmark = Bookmark.from_text(self._process.living().opened_at)

    def write(self, table: pa.Table, bookmark: Bookmark) -> None:
        """As SqlTable's."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        self._write(bookmark, "write", sink.getvalue().to_pybytes())

    def write_few(self, keys: Sequence[str], rows: Sequence[tuple[Any, ...]], bookmark: Bookmark) -> None:
        """As SqlTable's."""
        self._write(bookmark, "write_few", keys, rows)

    def snapshot(self) -> IsolatedTableSnapshot:
        """The newest state. Raises UnavailableError."""

        def take(channel: Channel) -> IsolatedTableSnapshot:
            return IsolatedTableSnapshot(channel, Bookmark.from_text(channel.call("snapshot")), "SQL")

        return self._process.snapshot(take)

    def answer(self, request: Request) -> Answer:
        """The answer of a snapshot, in one call. Raises UnavailableError."""
        within_s = answer_within_s(request, "SQL")

        def ask(call: Callable[..., Any]) -> Answer:
            rows, bookmark = call("answer", request, within_s=within_s)
            return Answer(rows, Bookmark.from_text(bookmark).position)

        return self._process.read(ask)

    def copy_to(self, path: Path) -> int:
        """As SqlTable's. Raises UnavailableError."""
        try:
            return int(self._process.living().call("copy_to", path.absolute()))
        except ChildEndedError as error:
            raise unavailable() from error

    def mark_verified(self) -> None:
        """As SqlTable's; a child that was started again cannot tell, and a replay has to."""
        with suppress(ChildEndedError):
            self._process.living().call("mark_verified")

    def close(self) -> None:
        """As SqlTable's."""
        self._process.close()

    def _write(self, bookmark: Bookmark, name: str, *arguments: Any) -> None:
        text = bookmark.to_text()
        for attempt in range(ATTEMPTS):
            child = self._process.living()
            if attempt and child.opened_at == text:
                break  # the child ended after its commit
            try:
                child.call(name, *arguments, text)
                break
            except ChildEndedError:
                _LOG.warning("the process of the SQL store in %s ended within a write; again", self._path)
        else:
            raise StorageError(f"the process of the SQL store in {self._path} ended {ATTEMPTS} times within a write")
        self.bookmark = bookmark


class IsolatedTableSnapshot(IsolatedSnapshot):
    """One state of an IsolatedTable."""

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        return (entry for entry in self.entries() if bucket.has(entry[0].encode()))
