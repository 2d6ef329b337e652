"""Power cuts under a verifiable topic: no checkpoint is ahead of durable data, and none contradicts an earlier one.

``MAINSTEM_TREE_SEEDS`` is the number of histories; ``make tree-cuts`` takes 1,000.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.verifiable import tree_files
from mainstem.log.verifiable.tree_files import TreeFiles
from tests.log.simulation.verifiable import run_verifiable

_SEEDS = int(os.environ.get("MAINSTEM_TREE_SEEDS", "60"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", [range(at, min(at + 20, _SEEDS)) for at in range(0, _SEEDS, 20)], ids=str)
def test_no_checkpoint_is_ahead_of_durable_data_nor_against_an_earlier_one(seeds: range) -> None:
    for seed in seeds:
        try:
            run_verifiable(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def test_the_histories_sign_something_and_lose_segments() -> None:
    histories = [run_verifiable(seed) for seed in range(7000, 7010)]
    assert sum(len(each.signed) for each in histories) > 50
    assert any(each.log.log_start_offset > 0 for each in histories)


def _found(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object) -> bool:
    monkeypatch.setattr(owner, name, value)
    for seed in range(40):
        try:
            run_verifiable(seed)
        except (AssertionError, MainstemError):
            return True
    return False


def test_a_log_that_removes_segments_before_their_leaves_are_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(monkeypatch, PartitionLog, "cleanable_end", property(lambda log: log.log_end_offset))


def test_a_start_that_removes_segments_before_their_leaves_are_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(monkeypatch, TreeFiles, "kept_offset", lambda _: 1 << 60)


def test_a_state_before_its_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(monkeypatch, tree_files, "sync_file", lambda *_: None)
