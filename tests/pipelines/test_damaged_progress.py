"""Records about pipelines that cannot be read: each reader steps over them, with one line in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.model import Position, TopicPartition
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.losses import Loss, record_losses, recorded_losses
from mainstem.pipelines.overview import Overview
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.options.options import LogOptions
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.feed.coverage import Coverage
from mainstem.views.host.progress_follower import ProgressFollower
from mainstem.views.subscriptions.changes import Changes
from tests.support.damage import plant
from tests.support.eventually import eventually

LOSS = Loss("reader", TopicPartition("a", 0), 0, 2, "retention", "id", 1)
BEHIND = Position.of("a", 0, 3)


def say(log: Log, name: str, offset: int) -> None:
    at, output = Position.of("a", 0, offset), f"of-{name}"
    progress = Progress(name, offset, at, Position.of(output, 0, offset), Position(), ("a",), (output,))
    log.append_many(PROGRESS_TOPIC, [progress.to_record()])


@pytest.fixture(params=["damaged", "not a document"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Progress of ``p``, once more but not to be read, and of ``q`` behind it; a loss last."""
    with EmbeddedBroker(tmp_path) as broker:
        with Log(broker.bootstrap, timeout_s=10) as log:
            for topic in ("a", "of-p", "of-q", PROGRESS_TOPIC):
                log.create_topic(topic, partitions=1)
            for topic in ("of-p", "of-q"):
                log.append_many(topic, ["row"] * 5)
            say(log, "p", 1)
            if request.param == "damaged":
                say(log, "p", 2)
            else:
                log.append(PROGRESS_TOPIC, "not a document", key="p")
            say(log, "q", 3)
            record_losses(log, [LOSS])
        if request.param == "damaged":
            broker._stop_broker()
            plant(broker.directory, TopicPartition(PROGRESS_TOPIC, 0), 1, "checksum")
            broker.start()
        yield broker


@pytest.fixture
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap, timeout_s=10) as log:
        yield log


def test_the_overview_shows_what_can_be_read(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    overview = Overview(log)
    assert [(entry["name"], entry["batch_id"]) for entry in overview.latest()] == [("p", 1), ("q", 3)]
    said = [record.levelno for record in caplog.records if record.name == "mainstem.pipelines"]
    assert said == [logging.WARNING]
    say(log, "p", 4)
    assert overview.latest()[0]["batch_id"] == 4


def test_a_pipeline_goes_on_and_its_next_progress_covers_all_that_it_wrote(broker: EmbeddedBroker, log: Log) -> None:
    for name in ("p", "q"):
        with ProgressLog(LogOptions(broker.bootstrap), name, (f"of-{name}",)) as progress:
            progress.advance(5, StreamOffsets(BEHIND, {}, Position()), Position.of(f"of-{name}", 0, 4))
    sinks = {entry["name"]: entry["sink"] for entry in Overview(log).latest()}
    assert sinks == {"p": "of-p/0:5", "q": "of-q/0:4"}


def test_losses_and_a_deploy_are_read_past_it(log: Log) -> None:
    assert recorded_losses(log) == [LOSS]
    app = App("other")
    app.topic("a", "id STRING")
    deploy(app, log)


def test_views_go_on_to_learn_of_progress(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    coverage = Coverage()

    def covered() -> int:
        return coverage.covers("of-q", Position.of("of-q", 0, 5)).get(TopicPartition("a", 0), 0)

    follower = ProgressFollower(log, coverage, Changes())
    follower.start()
    try:
        eventually(lambda: covered() == 3, what="the progress behind it", within_s=20)
        say(log, "q", 5)
        eventually(lambda: covered() == 5, what="the next progress", within_s=20)
    finally:
        follower.stop()
    assert len([record for record in caplog.records if f"{PROGRESS_TOPIC}/0:1" in record.getMessage()]) == 1
