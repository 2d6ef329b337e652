"""Bounds of a question and of its answer, checked before a parser sees the one and while the other is gathered.

The parsers of SQL (DuckDB) and of search queries (tantivy) recurse in native code: a text that nests without end
overflows their stack and ends the process. So a text has a bound in bytes, and one in opening brackets. Brackets are
counted everywhere, also in strings and comments: a counter that had to know where a string ends could be
misled. Pure functions, and one counter for one thread.
"""

from __future__ import annotations

from typing import Any, Final

from mainstem.errors import QueryError

MEMORY_MAX: Final = "1GB"
"""The memory of DuckDB for the queries of one view, without the spilled part."""
SQL_BYTES_MAX: Final = 65_536
SQL_BRACKETS_MAX: Final = 2_000
"""DuckDB's own limit is 1,000 nested expressions; it was seen to survive 40,000 nested selects on a stack of 8 MiB."""
SEARCH_BYTES_MAX: Final = 8_192
SEARCH_BRACKETS_MAX: Final = 100
"""Brackets and ``NOT``s; tantivy was seen to survive 3,000 on a stack of 8 MiB."""
ANSWER_BYTES_MAX: Final = 64 << 20
DEPTH_MAX: Final = 100
"""Levels of lists and structs in an answer's values."""
_CELL_BYTES: Final = 16
_OPENING: Final = "([{"


def check_sql(query: str) -> None:
    """Raises QueryError for a text that is too long or has too many brackets."""
    _check(query, SQL_BYTES_MAX, SQL_BRACKETS_MAX, sum(map(query.count, _OPENING)), "opening brackets")


def check_search(query: str) -> None:
    """Raises QueryError for a text that is too long or nests too much."""
    nesting = sum(map(query.count, (*_OPENING, "NOT")))
    _check(query, SEARCH_BYTES_MAX, SEARCH_BRACKETS_MAX, nesting, "opening brackets and NOTs")


class AnswerSize:
    """Counts the bytes of an answer on its way. For one thread."""

    def __init__(self, bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0

    def has_room(self, size_bytes: int) -> bool:
        """Whether ``size_bytes`` more stay within the limit."""
        return self._bytes + size_bytes <= self._bytes_max

    def add(self, size_bytes: int) -> None:
        """Count ``size_bytes`` more. Raises QueryError over the limit."""
        self._bytes += size_bytes
        if self._bytes > self._bytes_max:
            raise QueryError(
                f"the answer is larger than {self._bytes_max} bytes: ask for fewer rows or columns, or for parts"
            )

    def add_row(self, row: tuple[Any, ...]) -> int:
        """Count a row of values; its size. Raises QueryError over the limit, or where a value nests too deeply."""
        size_bytes = size_of(row, DEPTH_MAX)
        self.add(size_bytes)
        return size_bytes


def size_of(value: Any, depth_max: int | None = None) -> int:
    """About how many bytes a value takes in an answer. Not recursive.

    Raises QueryError where it nests deeper than ``depth_max``.
    """
    size_bytes = 0
    unread: list[tuple[Any, int]] = [(value, 0)]
    while unread:
        each, depth = unread.pop()
        size_bytes += _CELL_BYTES
        if isinstance(each, str | bytes | bytearray):
            size_bytes += len(each)
            continue
        if not isinstance(each, list | tuple | dict | set):
            continue
        if depth_max is not None and depth > depth_max:
            raise QueryError(f"a value of the answer nests deeper than {depth_max} levels: select parts of it")
        inner = [*each.keys(), *each.values()] if isinstance(each, dict) else each
        unread += [(entry, depth + 1) for entry in inner]
    return size_bytes


def _check(query: str, bytes_max: int, brackets_max: int, brackets: int, what: str) -> None:
    size_bytes = len(query.encode(errors="surrogatepass"))
    if size_bytes > bytes_max:
        raise QueryError(f"the query has {size_bytes} bytes: send at most {bytes_max}")
    if brackets > brackets_max:
        raise QueryError(f"the query has {brackets} {what}: use at most {brackets_max}")
