"""The transactional producers of one Python process: taken for a task, kept for the next micro-batch.

A transactional id belongs to one process for good: ``<group>-<process>-<n>``, where ``process`` is random. So an
abandoned task (its driver is gone, or Spark has given up its executor) can fence and abort only itself. If ids were
numbered by task, an abandoned task could abort what another task has prepared, even after the decision.
A process has as many ids as it prepares transactions in one micro-batch. ``is_task_of`` recognizes them by their whole
form, since one group's name may begin with another's.

The states of an id:
1. *New*: InitProducerId. No other process has the id, so there is nothing to fence.
2. *Prepared*: a task has reported it. From here on the driver ends its transaction. The process sends no request for
   it, because an InitProducerId might abort a decided transaction.
3. *Taken again*, by a task of a later micro-batch. Spark starts a micro-batch only after the previous one has finished,
   so the transaction has ended. With transaction version 2 the end of a transaction raises the epoch by one. The
   process then uses the next epoch without a request; the log refuses it as long as the transaction is open. With
   version 1, or after such a refusal, the process sends InitProducerId.
4. *Failed* before the report: no decision can name it. The process aborts it at once, if it can reach the log.

A forked process starts without ids. Owned by one thread.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.producers import BatchStamps, ProducerIdentity
from mainstem.client.wire.produce.transaction_requests import (
    ProducerInstance,
    TransactionCapabilities,
    add_partitions,
    end_all,
    init_producer,
    learn_capabilities,
)
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.record.writer import ProducerStamp
from mainstem.spark.options.options import LogOptions
from mainstem.spark.per_process import PerProcess
from mainstem.spark.sink.task_appender import StampSource

_NEVER: Final = -1
_EPOCH_LAST: Final = 2**15 - 2
_GROUPS_MAX: Final = 64
_WORD_BYTES: Final = 4
_OWN: Final = re.compile(rf"-[0-9a-f]{{{2 * _WORD_BYTES}}}-\d+")


@dataclass(slots=True)
class _Id:
    """A transactional id of this process, the micro-batch that it last prepared, and its identity in that one."""

    name: str
    batch_id: int = _NEVER
    last: ProducerIdentity | None = None


@dataclass(slots=True)
class _Process:
    """The state of one process."""

    word: str = field(default_factory=lambda: secrets.token_hex(_WORD_BYTES))
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    capabilities: dict[tuple[LogOptions, int | None], TransactionCapabilities] = field(default_factory=dict)
    idle: dict[tuple[LogOptions, str], list[_Id]] = field(default_factory=dict)


_THIS = PerProcess(_Process)


def capabilities_of(client: WireClient, log: LogOptions, timeout_ms: int | None) -> TransactionCapabilities:
    """How the log runs transactions. Each process asks once."""
    known = _THIS.value.capabilities
    if (log, timeout_ms) not in known:
        known[log, timeout_ms] = learn_capabilities(client, timeout_ms)
    return known[log, timeout_ms]


class _State(Enum):
    """How far a task's producer is with its identity."""

    NEW = auto()
    """It has none: no record was appended."""
    EXPECTED = auto()
    """The next epoch of its id, which the log has not seen yet."""
    CONFIRMED = auto()
    """The log gave it."""


class TaskProducer(StampSource):
    """The producer of one task's transaction, which the driver ends. It gets its identity with the first record."""

    def __init__(
        self,
        log: LogOptions,
        group: str,
        batch_id: int,
        capabilities: TransactionCapabilities,
        on_init: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_init`` is called when the producer has its identity."""
        super().__init__(BatchStamps(ProducerIdentity(-1, -1), is_transactional=True))
        self._key = (log, group)
        self._batch_id = batch_id
        self._capabilities = capabilities
        self._on_init = on_init
        self._id = _taken(self._key, batch_id)
        self._state = _State.NEW
        self._added: set[TopicPartition] = set()
        self.transactional_id = self._id.name

    @property
    def instance(self) -> ProducerInstance:
        """The transaction; valid after the first record."""
        return ProducerInstance(self._id.name, *self.stamps.identity)

    @property
    def has_begun(self) -> bool:
        return self._state is not _State.NEW

    def stamp(self, client: WireClient, tp: TopicPartition) -> ProducerStamp:
        if not self.has_begun:
            self._begin(client)
        if self.asks_before(tp):
            add_partitions(client, self.instance, [tp])
            self._added.add(tp)
        return super().stamp(client, tp)

    def asks_before(self, tp: TopicPartition) -> bool:
        return not self._capabilities.raises_epoch and tp not in self._added

    def renews(self, client: WireClient) -> bool:
        """The log has refused the expected epoch: ask for the current one."""
        if self._state is not _State.EXPECTED:
            return False
        self._init(client)
        return True

    def prepared(self) -> None:
        """The task reports its transaction; from now on only the driver ends it."""
        if self.has_begun:
            self._id.batch_id, self._id.last = self._batch_id, self.stamps.identity
        _give_back(self._key, self._id)

    def failed(self, client: WireClient) -> None:
        """The task sends no report: abort the transaction. If the log cannot be reached, the driver aborts it later."""
        self._id.last = None
        if self.has_begun:
            try:
                end_all(client, [self.instance], self._capabilities, commit=False)
            except MainstemError:
                return  # the id may still have an open transaction: do not use it again
        _give_back(self._key, self._id)

    def _begin(self, client: WireClient) -> None:
        last = self._id.last
        if self._capabilities.raises_epoch and last is not None and last.producer_epoch < _EPOCH_LAST:
            self.stamps.adopt(last._replace(producer_epoch=last.producer_epoch + 1))
            self._state = _State.EXPECTED
        else:
            self._init(client)
        self._on_init()

    def _init(self, client: WireClient) -> None:
        self.stamps.adopt(init_producer(client, self._id.name, self._capabilities))
        self._state = _State.CONFIRMED


def is_task_of(group: str, transactional_id: str) -> bool:
    """Whether a task of this group takes such an id. A group whose name begins with this one's does not count."""
    return transactional_id.startswith(group) and _OWN.fullmatch(transactional_id, len(group)) is not None


def _taken(key: tuple[LogOptions, str], batch_id: int) -> _Id:
    """An id whose last transaction has ended, or a new one."""
    this = _THIS.value
    idle = this.idle.get(key, [])
    for known in idle:
        if known.batch_id < batch_id:
            idle.remove(known)
            return known
    return _Id(f"{key[1]}-{this.word}-{next(this.numbers)}")


def _give_back(key: tuple[LogOptions, str], known: _Id) -> None:
    idle = _THIS.value.idle
    idle.setdefault(key, []).append(known)
    while len(idle) > _GROUPS_MAX:  # sinks of the past
        del idle[next(iter(idle))]
