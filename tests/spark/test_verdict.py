"""What a verification says of what it has found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mainstem.cli.apps.verify import _show
from mainstem.model import Position
from mainstem.spark.verification.comparison_rules import DifferenceKind, Rule
from mainstem.spark.verification.record_comparison import Compared
from mainstem.spark.verification.result import TopicVerification, VerificationResult


@pytest.mark.parametrize(
    ("counts", "word", "said"),
    [
        ({}, "equal", "t: 1 records, 3 by the batch"),
        ({DifferenceKind.HELD_BACK: 2}, "equal", "2 held back by the watermark"),
        ({DifferenceKind.UNDECIDED: 2}, "not contradicted", "2 are missing; it is unknown whether the watermark"),
        (
            {DifferenceKind.UNDECIDED: 1, DifferenceKind.MISSING: 1},
            "different",
            "1 differ; 1 are missing; it is unknown",
        ),
    ],
)
def test_equal_is_said_of_what_is_equal_for_certain(
    counts: Mapping[DifferenceKind, int], word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    none = Position()
    topic = TopicVerification.of("t", Rule.MULTISET, Compared(3, 1, counts, ()), behind=0)
    outcome = VerificationResult("p", none, none, none, none, (topic,), ())
    _show(outcome)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{word}: p and a batch")
    assert said in second
    assert (outcome.is_equal, outcome.is_contradicted) == (word == "equal", word == "different")
