"""Which groups and transactional ids a log's files name: for a list of what goes along, nothing is changed.

Reads the ``.log`` files of the two internal topics from the outside. Damage ends the walk of a partition: who opens it
reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mainstem.broker.groups.records import OFFSET_KEY_TYPES, OffsetKey, key_type, read_offset_change
from mainstem.broker.storage.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mainstem.broker.transactions.records import read_transaction
from mainstem.broker.transactions.state import Transaction
from mainstem.errors import MainstemError
from mainstem.kafka_directory.directory_files import reading
from mainstem.log.files.names import LOG
from mainstem.record.header import iter_headers
from mainstem.record.reader import DecodedRecord, read_records


class StoredCoordination(NamedTuple):
    """``offsets`` counts the committed offsets of each group; ``transactions`` says the state of each id."""

    offsets: dict[str, int]
    transactions: dict[str, str]


def read_coordination(data: Path) -> StoredCoordination:
    """Read both topics. Raises StorageError when a file cannot be read."""
    committed: dict[OffsetKey, None] = {}
    for record in _records(data, OFFSETS_TOPIC):
        key = record.key or b""
        if len(key) >= 2 and key_type(key) in OFFSET_KEY_TYPES:
            change = read_offset_change(key, record.value)
            if change.committed is None:
                committed.pop(change.key, None)
            else:
                committed[change.key] = None
    offsets: dict[str, int] = {}
    for group, _, _ in committed:
        offsets[group] = offsets.get(group, 0) + 1
    transactions: dict[str, Transaction] = {}
    for record in _records(data, TRANSACTIONS_TOPIC):
        name, transaction = read_transaction(record.key or b"", record.value) or ("", None)
        if transaction is None:
            transactions.pop(name, None)
        else:
            transactions[name] = transaction
    states = {name: each.state.text for name, each in sorted(transactions.items())}
    return StoredCoordination(dict(sorted(offsets.items())), states)


def _records(data: Path, topic: str) -> Iterator[DecodedRecord]:
    """The records of a topic that are no markers, partition by partition."""
    for directory in sorted(data.glob(f"{topic}-[0-9]*")):
        for path in sorted(directory.glob(f"*{LOG}")):
            with reading(path):
                content = path.read_bytes()
            try:
                for at, header in iter_headers(content):
                    if not header.is_control and header.record_count:
                        yield from read_records(content[at : at + header.size_bytes])
            except MainstemError:
                break
