"""What is said of a query that failed: whose line, what was raised, in which micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainstem.pipelines.definitions import Pipeline, Topic
from mainstem.spark.queries.failures import cause

HERE = Path(__file__)
WORKER = '  File "/usr/lib/site-packages/pyspark/worker.py", line 1, in main\n'


def derive(flights: object) -> object:
    return flights


PIPELINE = Pipeline("p", derive, (Topic("flights"),), (Topic("out"),), "append", where="test_failures.py:18")


def planned(directory: Path, *ends: str) -> str:
    """A checkpoint whose last micro-batch is planned, and the others done."""
    for number, end in enumerate(ends):
        for kind in ("offsets", "commits"):
            (directory / kind).mkdir(exist_ok=True)
        (directory / "offsets" / str(number)).write_text("v1\n{}\n" + json.dumps({"position": json.loads(end)}))
        if number < len(ends) - 1:
            (directory / "commits" / str(number)).touch()
    return str(directory)


def test_the_innermost_line_of_the_pipelines_file_is_named(tmp_path: Path) -> None:
    text = f'{WORKER}  File "{HERE}", line 7, in half\n{WORKER}ZeroDivisionError: by zero\n\tat org.apache.spark'
    assert cause(PIPELINE, str(tmp_path), text) == "test_failures.py:7, in half: ZeroDivisionError: by zero"


def test_a_file_beside_the_pipelines_counts_as_the_users(tmp_path: Path) -> None:
    text = f"  File \"{HERE.parent}/helpers.py\", line 3, in fee\n{WORKER}KeyError: 'fee'\n"
    assert cause(PIPELINE, str(tmp_path), text) == "helpers.py:3, in fee: KeyError: 'fee'"


@pytest.mark.parametrize(
    ("context", "place"),
    [
        ('== DataFrame ==\n"__truediv__" was called from\n/app/flights.py:38\n', "flights.py:38"),
        ("== SQL (line 1, position 1) ==\n n / 0\n ^^^^^\n", "test_failures.py:18, in derive, in 'n / 0'"),
        ("", "test_failures.py:18, in derive"),
    ],
)
def test_what_spark_evaluates_itself_is_named_as_spark_does(tmp_path: Path, context: str, place: str) -> None:
    text = f"{WORKER}pyspark.errors.exceptions.captured.ArithmeticException: [DIVIDE_BY_ZERO] no.\n{context}"
    assert cause(PIPELINE, str(tmp_path), text) == f"{place}: ArithmeticException: [DIVIDE_BY_ZERO] no."


def test_the_micro_batch_and_what_it_read_are_named(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, '{"f/0": 3, "f/1": 2}', '{"f/0": 3, "f/1": 5, "f/2": 1}')
    assert cause(PIPELINE, checkpoint, "ValueError: x").endswith(
        "ValueError: x; in micro-batch 1 (f/1:[2, 5), f/2:[0, 1))"
    )


def test_a_query_that_failed_between_micro_batches_names_none(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, '{"f/0": 3}', '{"f/0": 4}')
    (tmp_path / "commits" / "1").touch()
    assert cause(PIPELINE, checkpoint, "ValueError: x").endswith(": ValueError: x")
