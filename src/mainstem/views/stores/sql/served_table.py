"""A SQL table in its own process: the calls that its parent makes (`views.stores.sql.query_server`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from mainstem.errors import StorageError
from mainstem.views.stores.sql.sql_table import SqlSnapshot, SqlTable, TableDefinition
from mainstem.views.stores.store import Bookmark

_LOCK_S: Final = 20.0
_LOCK_CHECK_S: Final = 0.05


class ServedTable:
    """The calls of the parent process to the table. As thread-safe as the table."""

    def __init__(self, path: Path, definition: TableDefinition) -> None:
        """Raises StorageError."""
        self._table = _opened(path, definition)

    @property
    def state(self) -> str:
        """The table's bookmark, as text."""
        return self._table.bookmark.to_text()

    def snapshot(self) -> SqlSnapshot:
        """The newest state."""
        return self._table.snapshot()

    def write(self, table: bytes, bookmark: str) -> None:
        """As SqlTable's; ``table`` is an Arrow stream."""
        with pa.ipc.open_stream(table) as stream:
            self._table.write(stream.read_all(), Bookmark.from_text(bookmark))

    def write_few(self, keys: list[str], rows: list[tuple[Any, ...]], bookmark: str) -> None:
        """As SqlTable's."""
        self._table.write_few(keys, rows, Bookmark.from_text(bookmark))

    def copy_to(self, path: Path) -> int:
        """As SqlTable's."""
        return self._table.copy_to(path)

    def mark_verified(self) -> None:
        """As SqlTable's."""
        self._table.mark_verified()

    def close(self) -> None:
        """As SqlTable's."""
        self._table.close()


def _opened(path: Path, definition: TableDefinition) -> SqlTable:
    """The table. The process of a parent that was killed just now may hold its file for a moment yet."""
    until_s = time.monotonic() + _LOCK_S
    while True:
        try:
            return SqlTable(path, definition)
        except StorageError as error:
            if "lock on file" not in str(error) or time.monotonic() >= until_s:
                raise
        time.sleep(_LOCK_CHECK_S)
