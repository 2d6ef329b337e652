"""What a verification says of what it has found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mainstem.cli.apps.verify import _show
from mainstem.model import Position
from mainstem.spark.verification.comparison_rules import Finding, Rule
from mainstem.spark.verification.record_comparison import Compared
from mainstem.spark.verification.result import TopicVerdict, Verdict


@pytest.mark.parametrize(
    ("counts", "word", "said"),
    [
        ({}, "equal", "t: 1 records, 3 by the batch"),
        ({Finding.HELD_BACK: 2}, "equal", "2 held back by the watermark"),
        ({Finding.UNTOLD: 2}, "not contradicted", "2 are missing; it is unknown whether the watermark"),
        ({Finding.UNTOLD: 1, Finding.MISSING: 1}, "different", "1 differ; 1 are missing; it is unknown"),
    ],
)
def test_equal_is_said_of_what_is_equal_for_certain(
    counts: Mapping[Finding, int], word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    none = Position()
    topic = TopicVerdict.of("t", Rule.MULTISET, Compared(3, 1, counts, ()), behind=0)
    verdict = Verdict("p", none, none, none, none, (topic,), ())
    _show(verdict)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{word}: p and a batch")
    assert said in second
    assert (verdict.is_equal, verdict.is_contradicted) == (word == "equal", word == "different")
