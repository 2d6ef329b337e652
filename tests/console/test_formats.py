"""Numbers and times as people read them."""

from __future__ import annotations

import pytest

from mainstem.console.formats import (
    NOTHING,
    ago,
    duration,
    error_place,
    exact,
    moment,
    one_line,
    rate,
    setting,
    short,
    size,
)
from mainstem.console.rates import Rates


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (999.6, "1.0k"), (1234, "1.2k"), (34_000, "34k"), (5.6e6, "5.6M")]
)
def test_a_number_takes_at_most_four_signs(value: float, text: str) -> None:
    assert short(value) == text


def test_what_is_not_known_is_a_dash() -> None:
    assert (rate(None), duration(None), ago(None, 0), moment(None)) == ("–", "–", "–", "–")


def test_times_are_told_in_the_unit_that_fits() -> None:
    assert [duration(s) for s in (0.085, 3.21, 200, 7200, 200_000)] == ["85 ms", "3.2 s", "3 min", "2 h", "2 d"]
    assert [ago(1_000, now) for now in (0, 1_400, 61_000)] == ["now", "now", "1 min ago"]
    assert moment(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert moment(1e30).endswith(" ms")


def test_a_size_in_bytes() -> None:
    assert [size(each) for each in (None, 0, 1536, 3 << 19)] == [NOTHING, "0.0 KiB", "1.5 KiB", "1.5 MiB"]


def test_a_long_value_is_cut_to_one_line() -> None:
    assert one_line({"a": "x" * 500}, 20) == '{"a": "xxxxxxxxxxxx…'


def test_a_rate_is_known_from_the_second_look_on_and_not_when_a_counter_begins_anew() -> None:
    rates = Rates()
    assert rates.look({"a": 100}, 10.0) == {"a": None}
    assert rates.look({"a": 120, "b": 1}, 12.0) == {"a": 10.0, "b": None}
    assert rates.look({"a": 0}, 14.0) == {"a": None}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (-(2**70), "-1180591620717411303424"),
        (1234567890.12, 1234567890.12),
        (True, True),
        (None, None),
        ({"a": [2**60, "é"]}, '{"a": [1152921504606846976, "é"]}'),
        ("x" * 30, "x" * 20 + "…"),
        (["x" * 30], '["' + "x" * 18 + "…"),
    ],
)
def test_a_browser_gets_no_number_that_it_would_round(value: object, shown: object) -> None:
    assert exact(value, 40 if isinstance(value, dict) else 20) == shown


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 days (604800000)"),
        ("retention.ms", "-1", "no limit (-1)"),
        ("flush.messages", "9223372036854775807", "no limit (9223372036854775807)"),
        ("segment.bytes", "1073741824", "1 GiB (1073741824)"),
        ("log.retention.hours", "168", "7 days (168)"),
        ("x.ms", "123456789", "about 1.4 days (123456789)"),
        ("cleanup.policy", "compact", "compact"),
        ("min.insync.replicas", "1", "1"),
        ("anything", None, "–"),
    ],
)
def test_a_setting_is_shown_in_words_and_with_its_number(name: str, value: str | None, words: str) -> None:
    assert setting(name, value) == words


def test_the_place_of_an_error_is_drawn_below_its_line() -> None:
    assert error_place("SELECT 1,\n  nope", "not found (line 2, column 3)") == "  nope\n  ^"
    assert error_place("SELECT 1", "not found (line 7, column 3)") is None
    assert error_place("SELECT 1", "not found") is None
