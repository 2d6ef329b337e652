"""The values of a sink that processes exchange: the run, a task's report, the result, and the observer of the steps.

All are picklable, as Spark sends them to tasks and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from mainstem.client.wire.produce.producers import ProducerIdentity
from mainstem.client.wire.produce.transaction_requests import ProducerInstance
from mainstem.model import Position
from mainstem.spark.options.options import LogOptions
from mainstem.spark.sink.sink_commits import DecidedTransaction

NOT_DECIDED: Final = -1
LONGEST_TIMEOUT: Final = 0


class StepObserver(Protocol):
    """A callback with the name of each finished step. A test's may raise, or kill the process. Must be picklable."""

    def __call__(self, step: str, /) -> None: ...


def ignore_step(step: str) -> None:
    """Ignore the step."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SinkRun:
    """One run of a query's sink. ``driver`` is the producer that commits its decisions; None: each decision begins a
    run, and with a ``query_run`` the run lasts for the process's later commits of it.

    The caller that began the run keeps this object while it makes decisions: when the object is freed, its driver's
    state is freed, too.

    ``decided`` is the last decided micro-batch when the run began. ``timeout_ms`` is how long a task's transaction may
    be open. None means until it is ended, or LONGEST_TIMEOUT where the log does not support that. LONGEST_TIMEOUT means
    the longest time that the log allows.
    """

    log: LogOptions
    sink_id: str
    driver: ProducerIdentity | None = None
    decided: int = NOT_DECIDED
    timeout_ms: int | None = None
    query_run: str | None = None
    """Spark's id of the query's run; None: unknown, or not a query's."""

    @property
    def group(self) -> str:
        return f"mainstem-sink-{self.sink_id}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task's report: its open transaction. If ``records`` is 0, it has none, and the other fields do not count."""

    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    position: Position = field(default_factory=Position)
    records: int = 0
    begun_ms: int = 0
    attempt: int = 0
    begin: Position = field(default_factory=Position)

    @property
    def instance(self) -> ProducerInstance:
        return ProducerInstance(self.transactional_id, self.producer_id, self.producer_epoch)

    @property
    def transaction(self) -> DecidedTransaction:
        """The transaction as a decision lists it, with the last record of its first partition."""
        tp = min(self.position)
        return DecidedTransaction(self.instance, tp, self.position[tp] - 1)


@dataclass(frozen=True, slots=True)
class Decided:
    """A micro-batch that counts: where its records end, and how many were written now; 0 if it was decided before."""

    position: Position
    records: int
