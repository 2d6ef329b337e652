"""Mainstem answers as Apache Kafka does: some seeded sequences, against one Kafka; ``make differential`` plays more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.play import Stage
from tests.differential.run import find, report, stage
from tests.differential.sequences import theme_of
from tests.support.apache_kafka import KafkaUnavailableError, ensure_jars

pytestmark = pytest.mark.maven
_SEEDS = (*range(6), *range(7, 40), 153, 1016, 1076)


@pytest.fixture(scope="module")
def both() -> Iterator[Stage]:
    """Both brokers; without Kafka's jars the test is skipped, with the reason."""
    try:
        ensure_jars()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    with stage() as running:
        yield running


@pytest.mark.parametrize("seed", _SEEDS, ids=lambda seed: f"{theme_of(seed)}-{seed}")
def test_answers_are_those_of_kafka(both: Stage, seed: int) -> None:
    found = find(both, seed)
    assert found is None, report(both, seed, found)
