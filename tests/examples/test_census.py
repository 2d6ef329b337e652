"""The census of the examples: the count now, at every moment of the past, and by batch: all agree."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import mainstem as ms
from examples import census as example
from mainstem.client.log import Log
from tests.examples.serving import serving

HOURS = range(len(example.MOVES) + 1)
PARTY = "new year"


@dataclass(frozen=True)
class Country:
    """A country with a history, whose views have seen all of it."""

    log: Log
    url: str


@pytest.fixture(scope="module")
def country(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    with serving(example.app, tmp_path_factory.mktemp("census")) as (log, url):
        position = example.live(log)
        example.census(url, at_least=position.restrict(["moves"]), timeout=120)
        example.guests(url, PARTY, at_least=position.restrict(["door"]), timeout=120)
        yield Country(log, url)


def at(hours: float) -> datetime.datetime:
    """So many hours after the beginning."""
    time_ms = example.NOON_MS + hours * example.HOUR_MS
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)


def test_the_count_now_is_what_a_replay_counts(country: Country) -> None:
    assert example.census(country.url) == example.census_by_batch(country.log) == {"oslo": 1, "wien": 2}
    assert example.guests(country.url, PARTY) == example.guests_by_batch(country.log, PARTY) == 2
    assert example.guests(country.url, "nowhere") == 0


@pytest.mark.parametrize("hours", HOURS)
def test_the_count_at_any_time_is_what_a_replay_up_to_it_counts(country: Country, hours: int) -> None:
    moment = at(hours - 0.5)
    assert example.census(country.url, as_of=moment) == example.census_by_batch(country.log, moment)
    assert example.guests(country.url, PARTY, as_of=moment) == example.guests_by_batch(country.log, PARTY, moment)


def test_the_past_is_not_the_present(country: Country) -> None:
    assert [example.guests(country.url, PARTY, as_of=at(hours - 0.5)) for hours in HOURS] == [0, 1, 2, 3, 2, 3, 2]
    assert example.census(country.url, as_of=at(2.5)) == {"oslo": 2, "wien": 1}


def test_the_count_at_a_position_is_what_a_replay_up_to_it_counts(country: Country) -> None:
    for offset in HOURS:
        position = ms.Position.of("door", 0, offset)
        counted = example.guests_by_batch(country.log, PARTY, position)
        assert example.guests(country.url, PARTY, as_of=position) == counted


def test_both_views_equal_their_replay(country: Country) -> None:
    for name in example.app.views:
        assert ms.views(country.url)[name].verify()["equal"], name
