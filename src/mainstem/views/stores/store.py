"""The one contract of every view store.

A store holds what a view has made of its topic's records, and the **bookmark**: the position up to which it has applied
them. Its invariants, which one contract suite proves for every kind:

1. *One transaction.* ``apply`` changes the data and the bookmark together or not at all, over SIGKILL at any point. A
   store may lose its tail (the log has it); it never tears.
2. *A function of the position.* The content depends on the records before the position alone: not on how they were cut
   into batches, and not on how often it was restarted. So a replay up to the same position gives the same digest.
3. *One position a query.* A ``Snapshot`` sees the data and the position of one and the same ``apply``.

``apply`` has two halves, so that the next records can be read while the ones before are written: ``read`` depends on
the records alone and changes nothing, ``write`` is the transaction.

Concurrency: ``apply`` and ``write`` belong to one thread, the applier; ``read`` to one thread at a time, which may be
another; ``snapshot`` and ``query`` are safe from any thread, beside them.
"""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from mainstem.errors import StorageError, UnavailableError
from mainstem.model import OnDamaged, Position, TopicPartition
from mainstem.pipelines.kinds import Kind
from mainstem.schema.types import TopicSchema

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from mainstem.views.requests import Request

Row: TypeAlias = dict[str, Any]

# What `apply` reads of a batch, beside what the kind `reads`; a poison record is named by its partition and offset.
APPLY_COLUMNS = frozenset({"key", "value", "partition", "offset"})
VALUE_ERROR = "error"
"""The column that a batch has where some values cannot be read: why, or null."""
KEY_ERROR = "key_error"
"""The same of keys."""


class ValuesAsJson(Protocol):
    """The reading of an encoded topic's keys and values."""

    def as_json(self, arrow_batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its keys as text and its values as JSON, and why some cannot be read."""


@dataclass(frozen=True, slots=True)
class StoreDefinition:
    """The parts of a view's definition that its store needs. ``schema``, ``key``: the topic's, if it has them.

    ``on_damaged``: how the feed handles damaged records of the topic (`views.feed.feed`).
    ``values``: how the feed reads the values of an encoded topic; None for JSON.
    """

    view: str
    kind: Kind
    schema: TopicSchema | None = None
    on_damaged: OnDamaged = "stop"
    topic: str = ""
    key: tuple[str, ...] = ()
    values: ValuesAsJson | None = field(default=None, compare=False, repr=False)

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the records that ``apply`` is given."""
        return APPLY_COLUMNS | self.kind.reads

    @property
    def decimals(self) -> dict[str, str]:
        """The values of a metrics view that the schema says are decimals, and their types."""
        if self.schema is None:
            return {}
        types = {column.name: column.type for column in self.schema.columns if column.name in self.kind.numbers}
        return {name: type_name for name, type_name in types.items() if type_name.startswith("DECIMAL(")}


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest of a store's content, whatever the order of its entries: their number, and the sum of their hashes.

    Two stores of one kind in one process can be compared by it. With XOR two equal entries would cancel each other.
    """

    entries: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Account:
    """A store's record of its own writes, in the same transaction as its data. It reveals writes by other processes.

    ``digest``: of the whole content. ``writes``: the number that its library gave its last write. ``is_broken``:
    another process has written.
    """

    digest: Digest | None = None
    writes: int | None = None
    is_broken: bool = False

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        digest = None if self.digest is None else [self.digest.entries, self.digest.checksum]
        return {"digest": digest, "writes": self.writes, "is_broken": self.is_broken}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Account:
        """Read ``to_json``'s form. Raises what wrong JSON raises: ValueError, KeyError, TypeError."""
        digest = document["digest"]
        kept = None if digest is None else Digest(*map(int, digest))
        return cls(kept, document["writes"], bool(document["is_broken"]))


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The position of a store's data, written in the same transaction.

    ``topic_ids`` and ``leader_epochs`` identify the topic's log at that position: after a topic was recreated, or lost
    its tail, the same offset is another record. ``dead_letters`` counts the records that could not be applied,
    ``damaged_offsets`` those that could not be read and were skipped. ``account`` belongs to the store and is not
    compared with bookmarks; None in a kind of store without one, or in a store made before accounts existed.

    Compaction removes a record when a later one has the same key. A state between the two then lacks that key's row.
    ``exact_from`` is the position from which the content is again the result of all records before it.
    ``caught_up_ms`` is a time, by the view host's clock, at which the log had no record after the position (for a store
    that never was at the log's end: when it began). It shows whether deletions may have been removed unread
    (`views.feed.feed`), and is not compared either. None in a store made before this field existed.
    """

    position: Position = field(default_factory=Position)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    dead_letters: int = 0
    account: Account | None = field(default=None, compare=False)
    exact_from: Position = field(default_factory=Position)
    caught_up_ms: int | None = field(default=None, compare=False)
    damaged_offsets: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the content has everything that the topic had at this position."""
        return self.position.covers(self.exact_from)

    def after(self, previous: Bookmark, poisons: Sequence[Poison]) -> Bookmark:
        """This bookmark, with the dead letters of ``previous`` and of this step counted."""
        return replace(self, dead_letters=previous.dead_letters + len(poisons))

    def accounted(self, account: Account | None) -> Bookmark:
        """This bookmark with another account."""
        return replace(self, account=account)

    def to_text(self) -> str:
        """The stored form, a JSON document."""
        return json.dumps(
            {
                "position": self.position.to_json(),
                "topic_ids": dict(self.topic_ids),
                "leader_epochs": {str(tp): epoch for tp, epoch in self.leader_epochs.items()},
                "dead_letters": self.dead_letters,
                "account": None if self.account is None else self.account.to_json(),
                "exact_from": self.exact_from.to_json(),
                "caught_up_ms": self.caught_up_ms,
                "damaged_offsets": self.damaged_offsets,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Bookmark:
        """Read ``to_text``'s form. Raises StorageError when it is not that."""
        try:
            document = json.loads(text)
            epochs = {
                TopicPartition(name.rpartition("/")[0], int(name.rpartition("/")[2])): int(epoch)
                for name, epoch in document["leader_epochs"].items()
            }
            position = Position.from_json(document["position"])
            account = document.get("account")
            kept = None if account is None else Account.from_json(account)
            exact_from = Position.from_json(document.get("exact_from", {}))
            caught_up_ms = document.get("caught_up_ms")
            ids, letters = document["topic_ids"], document["dead_letters"]
            return cls(
                position,
                ids,
                epochs,
                letters,
                kept,
                exact_from,
                None if caught_up_ms is None else int(caught_up_ms),
                int(document.get("damaged_offsets", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"the store's bookmark cannot be read ({error}): rebuild the view") from error


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that the view cannot apply, and why."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    error: str


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Records as a store writes them, and those that it cannot apply. ``table``: the columns are the store's own."""

    table: pa.Table
    poisons: list[Poison]


class StoreUnavailableError(UnavailableError):
    """The server that holds a store cannot be reached, or does not take a write now: the applier waits and repeats."""


class StoreRewoundError(StoreUnavailableError):
    """The server that holds a store has lost what it had committed: the store is opened again at what it has."""


DeadLetters: TypeAlias = Callable[[Sequence[Poison]], None]


def no_dead_letters(poisons: Sequence[Poison]) -> None:
    """The sink for poison records that were sent to the dead-letter topic before: those of a replay."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Some of all keys: those whose CRC-32 is ``number`` modulo ``count``."""

    number: int
    count: int

    def has(self, key: bytes) -> bool:
        """Whether the key is one of them."""
        return zlib.crc32(key) % self.count == self.number


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, and the position that they reflect.

    ``covers``: the source positions, over any number of pipelines, that the position covers (the host fills it in).
    ``next``: the key after which a range of keys goes on in another answer; None when the answer is complete.
    ``checkpoints``: by ``TOPIC/PARTITION``, the signed checkpoint that covers the position, where it was asked for.
    """

    rows: list[Row]
    position: Position
    covers: Position = field(default_factory=Position)
    next: str | None = None
    checkpoints: Mapping[str, str] = field(default_factory=dict)


class Snapshot(ABC):
    """One state of a store, unchanged by what is applied meanwhile. A context manager; for one thread at a time."""

    bookmark: Bookmark

    @property
    def position(self) -> Position:
        """The position that this state reflects."""
        return self.bookmark.position

    @abstractmethod
    def query(self, request: Request) -> list[Row]:
        """The rows that answer ``request``. Raises QueryError."""

    def answer(self, request: Request) -> Answer:
        """The rows that answer ``request``, with the position of this state. Raises QueryError."""
        return Answer(self.query(request), self.position)

    @abstractmethod
    def digest(self) -> Digest:
        """The digest of everything that a query could see."""

    @abstractmethod
    def count(self) -> int:
        """The number of rows: one for each key that is not deleted."""

    @abstractmethod
    def entries(self) -> Iterator[tuple[str, Row]]:
        """The entries of the digest, each with a name, in the order of the names' UTF-8 bytes."""

    def entries_after(self, name: str | None) -> Iterator[tuple[str, Row]]:
        """The entries after that name, all of them for None. Kinds that keep their past find the name at once."""
        entries = self.entries()
        return entries if name is None else (entry for entry in entries if entry[0].encode() > name.encode())

    # Not every kind keeps its entries by keys.
    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]] | None:
        """The entries that depend on the records of a bucket's keys alone, in the order of their names.

        A replay of these records gives the same entries. None: no entry of this kind belongs to a key.
        """
        return None

    def intact(self) -> bool | None:
        """Whether only the store itself has written its content, by its own account, without the log.

        None: it has no account, or the account cannot decide. How reliable True is depends on the account: see each
        kind. False is a suspicion, which a replay confirms.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Let the state go. Idempotent."""

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ViewStore(ABC):
    """The base of all stores; the module's docstring has the contract. ``store_kinds.open_store`` makes them."""

    makes_itself: ClassVar[bool] = False
    """Whether a new store is made in one step where it stays; others are made beside it and renamed."""
    keeps_past: ClassVar[bool] = False
    """Whether the kind answers for past positions, and can copy its files for that."""

    @abstractmethod
    def __init__(self, path: Path, definition: StoreDefinition) -> None:
        """Open the store in a directory. Raises StorageError, and DefinitionError for what the kind cannot hold."""

    @classmethod
    def isolated(cls, path: Path, definition: StoreDefinition) -> ViewStore:
        """The store for users' questions; of a kind whose questions may end a process, in a process of its own."""
        return cls(path, definition)

    def apply(self, arrow_batch: pa.RecordBatch, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        """Apply records (the definition's ``reads``, in the log's order), and move to ``bookmark``, in one transaction.

        Records that cannot be applied are handed to ``dead_letters`` before anything is committed, and the store adds
        their number to the bookmark's; when it raises, nothing was applied. Raises StorageError.
        """
        self.write(self.read(arrow_batch), bookmark, dead_letters)

    @abstractmethod
    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """The first half of ``apply``: read the records, by themselves alone. From any thread, one at a time."""

    @abstractmethod
    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        """The second half of ``apply``: write what ``read`` has made, in one transaction."""

    is_volatile: ClassVar[bool] = False
    """True if a kill of the process can lose changes that were applied and shown to readers. After it is opened, such a
    store answers only when it has read to where the log ended at its opening, so no reader sees the position go back.
    """

    # Most stores lie in the version's own directory, so that whether they serve makes no difference to them.
    def serve(self) -> None:  # noqa: B027
        """This store's version serves from now on: called before its first step, or when it takes over from another.

        The version is named as the current one by then. Idempotent. Raises StorageError, StoreUnavailableError.
        """

    # Most stores wait for nothing.
    def interrupt(self) -> None:  # noqa: B027
        """End an ``apply`` that waits for another server, with StoreUnavailableError. From any thread, at once."""

    # Most stores put nothing off.
    def settle(self) -> None:  # noqa: B027
        """Do some of what was put off: called by the applier between its steps, also when no records come.

        A few seconds of work at a time, at most. Raises StorageError.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The newest state."""

    def copy_to(self, path: Path) -> int:
        """Write a copy of the newest state into the new directory ``path``, for ``open_store``; the bytes it took.

        Belongs to the applier's thread; kinds that do not keep their past have none. Raises StorageError.
        """
        raise StorageError(f"the store cannot be copied to {path}: this kind of view keeps no past")

    @property
    def location(self) -> str | None:
        """The directory whose files others may read too; None where the files are the store's own."""
        return None

    @property
    def table(self) -> str | None:
        """The table of a foreign database that this store keeps, with the database's address, for people."""
        return None

    @property
    @abstractmethod
    def bookmark(self) -> Bookmark:
        """The bookmark of the last ``apply``; an empty one before the first."""

    @abstractmethod
    def close(self) -> None:
        """Close the files. No snapshot may be in use any more."""

    def discard(self) -> None:
        """Close a store that will not be opened again; its directory is the caller's to remove."""
        self.close()

    def mark_verified(self) -> None:  # noqa: B027  # nothing to do where no account is kept
        """A replay has shown that what is stored is right: the account goes on from there. From any thread."""

    def query(self, request: Request) -> Answer:
        """Ask the newest state. Raises QueryError."""
        with self.snapshot() as snapshot:
            return snapshot.answer(request)

    @property
    def position(self) -> Position:
        """The position of the last ``apply``."""
        return self.bookmark.position

    def digest(self) -> Digest:
        """The digest of the newest state."""
        with self.snapshot() as snapshot:
            return snapshot.digest()

    def count(self) -> int:
        """How many rows the newest state has."""
        with self.snapshot() as snapshot:
            return snapshot.count()
