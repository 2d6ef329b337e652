"""Producer epochs near their end: whatever a producer does, its markers are taken and older instances are fenced."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mainstem.broker.transactions import steps
from mainstem.broker.transactions.state import ENDING, EPOCH_MAX, ProducerIdAndEpoch, Transaction, TransactionState
from mainstem.errors import RemoteError
from mainstem.log.partition.producer_state import ProducerState
from mainstem.model import TopicPartition
from mainstem.record.constants import ControlType
from mainstem.record.header import read_header
from mainstem.record.reader import EndMarker
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch

PARTITION = TopicPartition("t", 0)
STEPS = 60


class World:
    """One transactional id and one partition that it writes to."""

    def __init__(self, epoch: int) -> None:
        self.state = ProducerState()
        self.ids = iter(range(1, 10_000))
        self.transaction: Transaction | None = Transaction("tx", 0, epoch, 1000, TransactionState.EMPTY, 0)
        self.client = ProducerIdAndEpoch(0, epoch)
        self.sequence = 0

    def become(self, producer: ProducerIdAndEpoch) -> None:
        if producer != self.client:
            self.client, self.sequence = producer, 0

    def append(self) -> None:
        stamp = ProducerStamp(*self.client, self.sequence, is_transactional=True)
        header = read_header(build_batch([NewRecord(None, b"v", (), 0)], producer=stamp))
        self.state.check([header])
        self.state.update(header)
        self.sequence += 1

    def carry_out(self) -> None:
        transaction = self.transaction
        assert transaction is not None
        assert transaction.state in ENDING
        bumps = transaction.version >= steps.EPOCH_BUMP_FROM
        if PARTITION in transaction.partitions:
            producer = (transaction.producer_id, transaction.producer_epoch)
            self.state.check_marker(*producer, 0, bumps_epoch=bumps)
            kind = ControlType.COMMIT if transaction.commits else ControlType.ABORT
            data = build_control_batch(
                kind, producer_id=producer[0], producer_epoch=producer[1], coordinator_epoch=0, timestamp_ms=0
            )
            self.state.replay(read_header(data), EndMarker(kind, 0))
        self.transaction = steps.complete(transaction, 0)
        assert self.state.first_unstable_offset is None, "a transaction stays open"

    def init(self, *, recovers: bool) -> None:
        request = steps.Init(1000, self.client if recovers else None)
        for _ in range(2):
            self.transaction = steps.init(self.transaction, "tx", request, 0, lambda: next(self.ids))
            if self.transaction.state not in ENDING:
                break
            self.carry_out()
        assert self.transaction is not None
        before = self.client
        self.become(self.transaction.client)
        assert self.client.producer_id != before.producer_id or self.client.epoch >= before.epoch
        assert recovers or self.client != before, "the older instance is not fenced"

    def write(self, version: int) -> None:
        self.transaction = steps.add(self.transaction, self.client, [PARTITION], version, 0)
        self.append()

    def end(self, version: int, *, commit: bool) -> None:
        after = steps.end(self.transaction, self.client, version, 0, lambda: next(self.ids), commit=commit)
        self.transaction = after
        if after.state in ENDING:
            self.carry_out()
        self.become(after.client)

    def time_out(self) -> None:
        assert self.transaction is not None
        if self.transaction.state is TransactionState.ONGOING:
            self.transaction = steps.time_out(self.transaction, 0)
            self.carry_out()


@pytest.mark.parametrize("seed", range(40))
def test_producers_go_on_over_the_end_of_their_epochs(seed: int) -> None:
    chance = random.Random(seed)
    world = World(EPOCH_MAX - chance.randrange(1, 12))
    version = chance.choice((1, 2))
    refused = 0
    for _ in range(STEPS):
        step = chance.choice(("write", "write", "commit", "abort", "init", "recover", "time out", "restart"))
        try:
            if step == "write":
                world.write(version)
            elif step in ("commit", "abort"):
                world.end(version, commit=step == "commit")
            elif step in ("init", "recover"):
                world.init(recovers=step == "recover")
            elif step == "time out":
                world.time_out()
            elif world.transaction is not None:  # what the records do not keep is forgotten
                world.transaction = replace(world.transaction, last_producer_epoch=-1)
        except RemoteError:
            refused += 1
            world.init(recovers=False)
    assert refused < STEPS // 2
    world.init(recovers=False)
    world.write(version)
    world.end(version, commit=True)
