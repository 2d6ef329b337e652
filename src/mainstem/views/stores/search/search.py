"""Search views: full text over chosen fields, in tantivy.

Layout: one document for each record: its key, its JSON text (stored, not indexed) and the chosen fields (indexed, not
stored). The bookmark is a separate document, marked by ``_what``, replaced in the same commit as the records; no query
can find it. A commit is tantivy's atomic swap of ``meta.json``; uncommitted documents are lost in a crash. Files of a
commit that did not come so far are removed at the opening: the next commit would take the same names, and fail.

The account is a seal (`views.stores.close_digest`): tantivy's lock lets one process write, and its ``meta.json``
names every segment, their deletions and the number of the last operation, so that no commit leaves it as it was.

Queries are tantivy's own language over the definition's fields: words, ``field:word``, ``"a phrase"``, AND, OR, NOT,
``^`` boosts; ``_key:`` finds a key. A field's value is searched as its text, nested values as their JSON.

Concurrency: as `views.stores.store` says; a searcher is readable from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from mainstem.errors import DefinitionError, QueryError, StorageError
from mainstem.pipelines.kinds import Search
from mainstem.views.requests import Request, SearchQuery, wrong_kind
from mainstem.views.stores.close_digest import CloseDigest, Proof
from mainstem.views.stores.hashing import digest_of
from mainstem.views.stores.json_reader import JsonColumn, JsonReader, last_of_each_key
from mainstem.views.stores.rows import KEY, plain, row_of
from mainstem.views.stores.sql.query_bounds import AnswerSize, check_search
from mainstem.views.stores.store import (
    Bookmark,
    Bucket,
    DeadLetters,
    Digest,
    ReadRecords,
    Row,
    Snapshot,
    StoreDefinition,
    ViewStore,
)

SCORE = "_score"
_WHAT = "_what"
_TEXT = "_text"
_OWN_FIELDS = frozenset({KEY, SCORE, _WHAT, _TEXT})
_RECORD = "record"
_BOOKMARK = "bookmark"
_HEAP_BYTES = 64 << 20


class SearchStore(ViewStore):
    """The store of a search view, in tantivy."""

    def __init__(self, path: Path, definition: StoreDefinition) -> None:
        kind = definition.kind
        assert isinstance(kind, Search)
        self._fields = kind.fields
        path.mkdir(parents=True, exist_ok=True)
        self._meta = path / "meta.json"
        is_new = not self._meta.exists()
        try:
            self._index = tantivy.Index(_schema(self._fields), path=str(path))
            self._index.config_reader("manual")
            self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
            self._writer.garbage_collect_files()
        except (ValueError, OSError) as error:
            raise StorageError(f"the search store in {path} cannot be opened: {error}") from error
        self._seal = CloseDigest(path, self._proof, is_new=is_new)
        self._reader = JsonReader([JsonColumn(name) for name in self._fields], text=True)
        with self.snapshot() as snapshot:
            self._bookmark = snapshot.bookmark

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        read = self._reader.read(arrow_batch)
        return ReadRecords(last_of_each_key(read.table), read.poisons)

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        if read.poisons:
            dead_letters(read.poisons)
        bookmark = bookmark.after(self._bookmark, read.poisons)
        try:
            self._write(read.table, bookmark)
            self._index.reload()
        except (ValueError, OSError) as error:
            self._writer.rollback()
            with suppress(ValueError, OSError):  # on a full disk: the next opening removes them
                self._writer.garbage_collect_files()
            raise StorageError(f"the search store cannot be written: {error}") from error
        self._bookmark = bookmark

    def snapshot(self) -> SearchSnapshot:
        return SearchSnapshot(self._index, self._fields, self._seal)

    @property
    def bookmark(self) -> Bookmark:
        return self._bookmark

    def mark_verified(self) -> None:
        self._seal.mark_verified()

    def close(self) -> None:
        self._writer.wait_merging_threads()
        self._seal.close()

    def _proof(self) -> Proof:
        return "meta.json", blake2b(self._meta.read_bytes(), digest_size=16).hexdigest()

    def _write(self, table: pa.Table, bookmark: Bookmark) -> None:
        writer = self._writer
        columns = [pc.struct_field(table.column("row"), [number]).to_pylist() for number in range(len(self._fields))]
        texts = table.column("text").cast("binary").to_pylist()
        for key, text, *values in zip(table.column("key").to_pylist(), texts, *columns, strict=True):
            writer.delete_documents_by_term(KEY, key)
            if text is not None:
                writer.add_document(self._document(key, text, values))
        writer.delete_documents_by_term(_WHAT, _BOOKMARK)
        document = tantivy.Document()
        document.add_text(_WHAT, _BOOKMARK)
        document.add_bytes(_TEXT, bookmark.to_text().encode())
        writer.add_document(document)
        writer.commit()

    def _document(self, key: str, text: bytes, values: list[str | None]) -> tantivy.Document:
        document = tantivy.Document()
        document.add_text(_WHAT, _RECORD)
        document.add_text(KEY, key)
        document.add_bytes(_TEXT, text)
        for name, value in zip(self._fields, values, strict=True):
            if value is not None:
                document.add_text(name, value)
        return document


class SearchSnapshot(Snapshot):
    """One state of a SearchStore: a searcher."""

    def __init__(self, index: tantivy.Index, fields: tuple[str, ...], seal: CloseDigest) -> None:
        self._index = index
        self._fields = fields
        self._seal = seal
        self._searcher: tantivy.Searcher | None = index.searcher()
        own = tantivy.Query.term_query(index.schema, _WHAT, _BOOKMARK)
        self._no_record = (tantivy.Occur.MustNot, own)
        found = self._open.search(own, 1).hits
        text = None if not found else self._open.doc(found[0][1]).get_first(_TEXT)
        self.bookmark = Bookmark() if text is None else Bookmark.from_text(bytes(text).decode())

    def query(self, request: Request) -> list[Row]:
        if not isinstance(request, SearchQuery):
            raise wrong_kind(request, "search")
        if not request.q.strip():
            raise QueryError("q is empty: say what to search for; * finds everything")
        check_search(request.q)
        try:
            asked = self._index.parse_query(request.q, list(self._fields))
            hits = self._open.search(self._records(asked), request.limit, count=False).hits
        except ValueError as error:
            raise QueryError(f"{error}; the fields are {', '.join((*self._fields, KEY))}") from error
        size = AnswerSize()
        found = sorted((-float(score), *self._sized(address, size)) for score, address in hits)
        return [_hit(-negative, row_of(key, text)) for negative, key, text in found]

    def digest(self) -> Digest:
        return digest_of((key.encode(), text) for key, text in self._everything())

    def intact(self) -> bool | None:
        return self._seal.is_whole

    def count(self) -> int:
        found: Any = self._open.search(self._records(tantivy.Query.all_query()), 1)  # its stub forgets `count`
        return int(found.count)

    def entries(self) -> Iterator[tuple[str, Row]]:
        for key, text in sorted(self._everything()):
            yield key, row_of(key, text)

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        for key, text in sorted(stored for stored in self._everything() if bucket.has(stored[0].encode())):
            yield key, row_of(key, text)

    def close(self) -> None:
        self._searcher = None

    @property
    def _open(self) -> tantivy.Searcher:
        assert self._searcher is not None, "the snapshot is closed"
        return self._searcher

    def _records(self, query: tantivy.Query) -> tantivy.Query:
        """``query``, without the bookmark's document."""
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), self._no_record])

    def _everything(self) -> Iterator[tuple[str, bytes]]:
        every = tantivy.Query.const_score_query(self._records(tantivy.Query.all_query()), 1.0)
        limit = max(1, self._open.num_docs)
        for _score, address in self._open.search(every, limit, count=False).hits:
            yield self._stored(address)

    def _sized(self, address: tantivy.DocAddress, size: AnswerSize) -> tuple[str, bytes]:
        key, text = self._stored(address)
        size.add(len(text))
        return key, text

    def _stored(self, address: tantivy.DocAddress) -> tuple[str, bytes]:
        document = self._open.doc(address)
        text: Any = document.get_first(_TEXT)
        return str(document.get_first(KEY)), bytes(text)


def _hit(score: float, row: Row) -> Row:
    own = {SCORE: plain(score)}
    return own | row | own


def _schema(fields: tuple[str, ...]) -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_WHAT, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(KEY, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(_TEXT, stored=True, indexed=False)
    for name in fields:
        if name in _OWN_FIELDS or not tantivy.SchemaBuilder.is_valid_field_name(name):
            raise DefinitionError(f"{name!r} cannot be a field of a search view: the name is taken or no field name")
        builder.add_text_field(name)
    return builder.build()
