"""Segments that a compaction replaces: the moments before have the old ones, those after the new ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mainstem.backup.moments import time_text
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import backed_up, require_same_segments, require_sound, restored, values
from tests.support.eventually import eventually


def test_compacted_and_removed_segments_stay_for_the_moments_before(tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    settings = {"log.cleaner.backoff.ms": "20", "log.cleaner.min.cleanable.ratio": "0.1"}
    with EmbeddedBroker(tmp_path / "data", settings=settings) as broker, Log(broker.bootstrap) as log:
        configs = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
        log.create_topic("latest", partitions=1, configs=configs)
        padding = "x" * 20_000
        first = log.append_many("latest", [(str(n % 5), f"{n:04d}{padding}") for n in range(110)])
        before = backed_up(broker.directory, url, first)
        assert len(list((broker.directory / "latest-0").glob("*.log"))) > 1

        def is_compacted() -> bool:
            with suppress(FileNotFoundError):  # a segment that takes its place just now
                return sum(path.stat().st_size for path in (broker.directory / "latest-0").glob("*.log")) < 2 << 20
            return False

        eventually(is_compacted, "the topic is compacted")
        backed_up(broker.directory, url, log.end("latest"))
    state = backed_up(broker.directory, url, Position())
    restored(url, tmp_path / "now")
    require_same_segments(tmp_path / "now", broker.directory)
    restored(url, tmp_path / "then", time_text(before.time_ms))
    assert [value[:4] for value in values(tmp_path / "then", "latest")][-1] == "0109"
    assert state.ends
    require_sound(url)
