"""``mainstem verify APP.py PIPELINE``: what it prints of a result, and its exit codes.

Nothing here starts Spark: ``test_run_once.py`` has the results of a real session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import MainstemError, PipelineFailedError
from mainstem.model import Position, TopicPartition
from mainstem.spark.verification import verify_process
from mainstem.spark.verification.comparison_rules import Rule
from mainstem.spark.verification.result import RowDifference, TopicVerification, VerificationResult
from tests.cli.commands import Commands, Done

APP = """
import mainstem as ms

app = ms.App("once")
orders = app.topic("once.orders", schema="id STRING, amount INT", key="id")

@app.pipeline(orders, into="once.large", key="id")
def large(orders):
    return orders.where("amount > 10")
"""


def result(*differences: RowDifference) -> VerificationResult:
    count = len(differences)
    topic = TopicVerification("once.large", Rule.MULTISET, 2, 2 + count, count, 0, 0, 0, 0, 0, differences)
    none = Position()
    caveats = ("another writer appended to the topic",) if differences else ()
    return VerificationResult(
        "large", Position({TopicPartition("once.orders", 0): 3}), none, none, none, (topic,), caveats
    )


def verify(
    command: Commands, monkeypatch: pytest.MonkeyPatch, directory: Path, outcome: VerificationResult | MainstemError
) -> Done:
    """The command, when Spark gives this outcome."""

    def verified(*_: Any, **__: Any) -> Iterator[tuple[str, VerificationResult | MainstemError]]:
        yield "large", outcome

    monkeypatch.setattr(verify_process, "verify", verified)
    (directory / "app.py").write_text(APP)
    return command.run("verify", str(directory / "app.py"), "large", "--data", str(directory))


def test_what_differs_is_shown_with_what_may_be_why(
    command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    more = RowDifference(None, None, '{"id":"0","amount":9}', "once.large/0:2", 1)
    done = verify(command, monkeypatch, tmp_path, result(more))
    assert (done.code, done.err) == (5, "")
    first, second, *rows, last = done.out.splitlines()
    assert first.startswith("different: large and a batch over once.orders/0:3")
    assert "3 records, 2 by the batch; 1 differ" in second
    assert '{"id":"0","amount":9}' in "".join(rows)
    assert last == "may be why: another writer appended to the topic"


def test_what_is_equal_is_no_error(command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = verify(command, monkeypatch, tmp_path, result())
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("equal: large and a batch over once.orders/0:3")


def test_a_pipeline_that_fails_is_one_line(command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed = PipelineFailedError("pipeline large, run as a batch, failed: app.py:9; Spark's log of it: f")
    done = verify(command, monkeypatch, tmp_path, failed)
    assert (done.code, done.out) == (3, "")
    assert done.error == str(failed)
