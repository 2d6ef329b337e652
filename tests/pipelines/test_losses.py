"""Losses on record: they come back as they were, next to the pipelines' progress, which passes them over."""

from __future__ import annotations

import pytest

from mainstem.client.log import Log
from mainstem.errors import SchemaError
from mainstem.model import Record, TopicPartition
from mainstem.pipelines.losses import Loss, record_losses, recorded_losses
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.testing.embedded import EmbeddedBroker

LOSS = Loss("reader", TopicPartition("flights", 3), 5, 9, "removed by retention.ms=1000", "id", 1_700_000_000_000)
REMADE = Loss("reader", TopicPartition("flights", 3), 12, None, "the topic was deleted and recreated", "id", 7)


def as_record(loss: Loss) -> Record:
    key, value = loss.to_record()
    return Record(PROGRESS_TOPIC, 0, 0, -1, key, value)


@pytest.mark.parametrize("loss", [LOSS, REMADE])
def test_a_loss_comes_back_from_its_record(loss: Loss) -> None:
    assert Loss.from_record(as_record(loss)) == loss


def test_a_loss_is_no_progress_and_progress_no_loss() -> None:
    assert Progress.from_record(as_record(LOSS)) is None
    assert Loss.from_record(Record(PROGRESS_TOPIC, 0, 0, -1, b"carrier-delays", b"{}")) is None


def test_a_loss_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SchemaError, match="is not a record of a loss"):
        Loss.from_record(Record(PROGRESS_TOPIC, 0, 0, -1, b"loss:reader:flights/3:5-9:id", b"{}"))


def test_losses_are_listed_once_each_oldest_first_and_by_reader() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        assert recorded_losses(log) == []
        record_losses(log, [LOSS, REMADE])
        record_losses(log, [LOSS])
        assert recorded_losses(log, "reader") == [LOSS, REMADE]
        assert recorded_losses(log, "another") == []
