"""The difference of two topics by the latest value of each key, and the appends that make one equal to the other.

Two passes: the first keeps a digest for each key of both topics; the second reads the wanted topic again and appends
its records of the keys that differ, and a tombstone for each key that it lacks. Memory grows with the number of keys
(some 200 bytes each), not with their values.

A topic is compared as a whole or not at all: a key that an open transaction hides would count as gone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.client.wire.connection.deadline import Deadline, pauses_s
from mainstem.clock import SystemClock
from mainstem.errors import DefinitionError, TransactionTimeoutError
from mainstem.model import Record, TopicPartition
from mainstem.schemas_topic.frames import header_frame

EXAMPLES_MAX: Final = 3
_CHUNK_RECORDS: Final = 50_000
_TRANSACTION_S: Final = 300.0
_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Latest:
    """The last record of a key: where it is, and what it says."""

    at: tuple[TopicPartition, int]
    digest: bytes


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """The keys of ``live`` that differ from ``wanted``; ``repeats`` says whether a key of ``wanted`` came twice."""

    live: str
    wanted: str
    added: tuple[bytes, ...]
    changed: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    same: int
    repeats: bool
    _latest: dict[bytes, _Latest]

    @classmethod
    def between(cls, log: Log, live: str, wanted: str, *, wait_s: float = _WAIT_S) -> TopicDifference:
        """Compare the topics as they are now.

        Raises DefinitionError for a record without a key, TransactionTimeoutError when an open transaction hides the
        end of one for longer than ``wait_s``.
        """
        before, _ = _latest_of(log, live, wait_s)
        after, repeats = _latest_of(log, wanted, wait_s)
        return cls(
            live=live,
            wanted=wanted,
            added=tuple(key for key in after if key not in before),
            changed=tuple(key for key in after if key in before and before[key].digest != after[key].digest),
            gone=tuple(key for key in before if key not in after),
            same=sum(key in before and before[key].digest == entry.digest for key, entry in after.items()),
            repeats=repeats,
            _latest=after,
        )

    def __str__(self) -> str:
        parts = []
        for word, keys in (("added", self.added), ("changed", self.changed), ("gone", self.gone)):
            shown = ", ".join(key.decode(errors="replace") for key in keys[:EXAMPLES_MAX])
            more = ", …" if len(keys) > EXAMPLES_MAX else ""
            parts.append(f"{len(keys):,} {word}{f' ({shown}{more})' if keys else ''}")
        return f"{', '.join(parts)}, {self.same:,} as they were"

    def append_to_live(self, log: Log, transactional_id: str) -> None:
        """Make the live topic say what the wanted one does, in one transaction, or several where there is much."""
        records = self._records(log)
        while chunk := list(islice(records, _CHUNK_RECORDS)):
            with log.transaction(transactional_id, timeout_s=_TRANSACTION_S) as transaction:
                transaction.append_many(self.live, chunk)

    def _records(self, log: Log) -> Iterator[NewRecord]:
        wanted = {self._latest[key].at for key in (*self.added, *self.changed)}
        if wanted:
            for record in log.read(self.wanted):
                if _place(record) in wanted:
                    yield NewRecord(record.value, key=record.key, headers=record.headers)
        for key in self.gone:
            yield NewRecord(None, key=key)


def _latest_of(log: Log, topic: str, wait_s: float) -> tuple[dict[bytes, _Latest], bool]:
    """The latest record of each key that is not deleted, and whether a key came more than once."""
    latest: dict[bytes, _Latest] = {}
    repeats = False
    for record in _whole(log, topic, wait_s):
        if record.key is None:
            raise DefinitionError(
                f"topic {topic} has records without a key ({record.partition}:{record.offset}): what differs cannot be "
                "said in it; derive into a topic of another name instead"
            )
        repeats = repeats or record.key in latest
        if record.value is None:
            latest.pop(record.key, None)
        else:
            said = (header_frame(record.headers) or b"") + record.value  # bytes mean what their schema makes of them
            latest[record.key] = _Latest(_place(record), hashlib.blake2b(said, digest_size=16).digest())
    return latest, repeats


def _whole(log: Log, topic: str, wait_s: float) -> Iterator[Record]:
    """The topic's records up to its end as it is now, once all of them can be read.

    Apache Kafka answers the end of a transaction before readers may pass it; so there is something to wait for.
    """
    end, deadline = log.end(topic), Deadline(SystemClock(), wait_s)
    for pause_s in pauses_s():
        records = log.read(topic)
        if records.end.covers(end):
            return records
        if deadline.left_s() <= pause_s:
            break
        time.sleep(pause_s)
    hidden = [f"{tp} at {records.end.get(tp, 0)}" for tp, offset in end.items() if records.end.get(tp, 0) < offset]
    raise TransactionTimeoutError(
        f"an open transaction holds {', '.join(hidden)}, so topic {topic} cannot be compared as a whole, and nothing "
        "was changed; run it again when that has ended (kafka-transactions.sh list names what is open)"
    )


def _place(record: Record) -> tuple[TopicPartition, int]:
    return TopicPartition(record.topic, record.partition), record.offset
