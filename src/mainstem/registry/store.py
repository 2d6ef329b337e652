"""The schemas topic: reads it into a ``RegistryState``, and writes to it as if there were one registry only.

Why transactions: several registries may serve one topic, on Mainstem or Apache Kafka. All use one transactional id. A
write takes these steps:

1. read the topic up to its end, and decide by the state that this gave: without records to write, this is all;
2. begin a transaction, which fences every other store;
3. read and decide again;
4. write the records and commit them. If another store has fenced this one since step 2, the log refuses, nothing is
   written, and the steps are repeated.

So between step 3 and the commit no other registry has written, and two registrations of one schema get one id.

Contract: thread-safe; one lock around the state, which is never held while the log is asked or schemas are compared. A
read reflects every write that was answered before it began, by any store. A write is answered when its records are
durable and readable.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from mainstem.client.log import Log
from mainstem.errors import (
    ConfigError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    LogUnavailableError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    RemoteError,
    UnavailableError,
    UnknownTopicError,
)
from mainstem.model import Position
from mainstem.schemas_topic.records import SCHEMAS_TOPIC
from mainstem.schemas_topic.state import RegistryState

_TRANSACTION_S: Final = 30.0
_ATTEMPTS_MAX: Final = 200
_PAUSE_S: Final = 0.05
_FAILURES_MAX: Final = 5
_RECORDS_AT_ONCE: Final = 500
_FENCED: Final = (ProducerFencedError, InvalidProducerEpochError, InvalidTransactionStateError)
"""How a log says that another producer of this transactional id has ended the transaction."""
_Result = TypeVar("_Result")

Records = Sequence[tuple[bytes, bytes | None]]
"""Keys and values to write, in order."""


class Store:
    """The state of the schemas topic of a log. The module's docstring has the contract."""

    def __init__(self, log: Log, topic: str = SCHEMAS_TOPIC) -> None:
        self._log = log
        self._topic = topic
        self._transactional_id = f"mainstem-registry-{topic}"
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._is_compacted = False
        self._state = RegistryState()
        self._borrowers: set[object] = set()
        """Threads that use the state without the lock; a new set with each state."""
        self._position: Position | None = None
        """How far the state goes; None before the topic was read."""

    @contextmanager
    def known(self) -> Iterator[RegistryState]:
        """The state as it was last read, under the lock: for what never changes once it is there."""
        with self._lock:
            yield self._state

    @contextmanager
    def reading(self) -> Iterator[RegistryState]:
        """The state up to the topic's end, under the lock. Raises LogUnavailableError."""
        self._read_on()
        with self._lock:
            yield self._state

    @contextmanager
    def borrowing(self) -> Iterator[RegistryState]:
        """The state up to the topic's end, for work that may last: it does not change, and no other caller waits.

        What is read from the topic meanwhile goes into a copy, which is the store's state from then on.
        """
        self._read_on()
        borrower = object()
        with self._lock:
            state, borrowers = self._state, self._borrowers
            borrowers.add(borrower)
        try:
            yield state
        finally:
            with self._lock:
                borrowers.discard(borrower)

    def write(self, decide: Callable[[RegistryState], tuple[Records, _Result]]) -> _Result:
        """Write the records that ``decide`` makes of the state; returns its result. It may be called several times.

        Raises what ``decide`` raises (then nothing is written), LogUnavailableError, and UnavailableError when other
        registries kept writing.
        """
        with self._writing:
            failures = 0
            for _ in range(_ATTEMPTS_MAX):
                try:
                    return self._attempt(decide)
                except _FENCED:
                    time.sleep(random.uniform(0, _PAUSE_S))
                except RemoteError:  # as Kafka may answer to a commit that meets the beginning of another
                    failures += 1
                    if failures > _FAILURES_MAX:
                        raise
        raise UnavailableError("other registries keep writing to the same topic; try again later")

    def _attempt(self, decide: Callable[[RegistryState], tuple[Records, _Result]]) -> _Result:
        with self.borrowing() as state:
            records, result = decide(state)
        if not records:
            return result
        self._ensure_topic()
        with self._log.transaction(self._transactional_id, timeout_s=_TRANSACTION_S) as transaction:
            with self.borrowing() as state:
                records, result = decide(state)
                written = [(each, value) for key, value in records for each in state.spellings(key)]
            for each, value in written:
                transaction.append(self._topic, value, key=each, partition=0)
        if records:
            self._await(transaction.position)
        return result

    def _await(self, position: Position) -> None:
        """Wait until the state has what was committed: Kafka ends a transaction before its markers are written."""
        give_up_s = time.monotonic() + self._log.timeout_s
        self._read_on()
        while self._position is None or not self._position.covers(position):
            if time.monotonic() > give_up_s:
                raise LogUnavailableError(f"what was written to {self._topic} is not readable yet; ask again")
            time.sleep(_PAUSE_S / 10)
            self._read_on()

    def _read_on(self) -> None:
        """Take in what the topic has after the state's position."""
        with self._reading:
            try:
                end = self._log.end(self._topic)
                if len(end) != 1:
                    raise ConfigError(
                        f"topic {self._topic} has {len(end)} partitions, and the schema registry needs one: "
                        "name another topic, or make this one again"
                    )
                if end != self._position:
                    self._take_in()
            except (UnknownTopicError, OffsetOutOfRangeError):
                # the topic was removed or recreated: what is in it now is all that counts
                with self._lock:
                    self._state, self._borrowers, self._position = RegistryState(), set(), None
                    self._is_compacted = False
                if self._topic in self._log.topics():
                    self._take_in()

    def _take_in(self) -> None:
        reader = self._log.read(self._topic, start=self._position or "earliest")
        while records := list(itertools.islice(reader, _RECORDS_AT_ONCE)):
            with self._lock:
                if self._borrowers:
                    self._state, self._borrowers = self._state.copy(), set()
                for record in records:
                    self._state.apply(record.key, record.value, record.timestamp_ms)
                self._position = reader.position
        self._position = reader.position

    def _ensure_topic(self) -> None:
        """Make the topic. Raises ConfigError for one that would forget schemas."""
        if self._position is None:
            self._log.create_topic(self._topic, partitions=1, configs={"cleanup.policy": "compact"}, exist_ok=True)
        if self._is_compacted:
            return
        policy = self._log.describe_topic(self._topic).configs.get("cleanup.policy")
        if policy != "compact":
            raise ConfigError(
                f"topic {self._topic} has cleanup.policy={policy}, which removes schemas in time: set it to compact"
            )
        self._is_compacted = True
