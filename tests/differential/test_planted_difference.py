"""The tier finds a difference that is planted, and shrinks it to the one request that shows it. Needs no Kafka."""

from __future__ import annotations

from pathlib import Path

from mainstem.protocol.apis import ApiKey
from tests.broker.harness import LogProcess
from tests.differential.peer import Peer, common_versions
from tests.differential.play import Stage
from tests.differential.run import LEFT_OUT, find, shortened
from tests.differential.sequences import THEMES, sequence, theme_of
from tests.hostile.planted import DefectiveLog

_SEEDS = [seed for seed in range(20 * len(THEMES)) if theme_of(seed) == "records"]


def test_a_wrong_error_code_is_found_and_shrunk_to_the_request_that_shows_it(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "right") as right, DefectiveLog("a wrong error code", tmp_path / "wrong") as wrong:
        here, there = Peer(wrong.bootstrap), Peer(right.bootstrap)
        stage = Stage(here, there, common_versions((here, there), [key for key in ApiKey if key not in LEFT_OUT]))
        seed, found = next((seed, found) for seed in _SEEDS if (found := find(stage, seed)))
        steps, found = shortened(stage, sequence(seed, stage.versions), found)
        here.close()
        there.close()
    assert [step.api for step in steps] == ["create_topics", "delete_records"]
    (difference,) = found.differences
    assert (difference.path, difference.here, difference.there) == ("topics[0].partitions[0].error_code", 6, 1)
