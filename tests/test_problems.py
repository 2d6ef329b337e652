from __future__ import annotations

import inspect
import json

import pytest

from mainstem import errors, problems
from mainstem.error_help import HELP, help_of
from mainstem.errors import (
    ConditionFailedError,
    DamagedRecordsError,
    MainstemError,
    PositionTimeoutError,
    ProducerError,
    RemoteError,
)
from mainstem.model import Position, TopicPartition

ERROR_CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, MainstemError)]


def example(error_class: type[MainstemError]) -> MainstemError:
    if error_class is PositionTimeoutError:
        return PositionTimeoutError(
            "late",
            wanted=Position.of("a", 0, 9),
            reached=Position.of("a", 0, 7),
            transactions=("t",),
            pipelines=("p is failed",),
        )
    if error_class is RemoteError:
        return RemoteError("no", code=29, name="TOPIC_AUTHORIZATION_FAILED", retriable=False)
    if error_class is ConditionFailedError:
        return ConditionFailedError("no", condition="mainstem-expect-end", expected=3, actual=17)
    if error_class is DamagedRecordsError:
        return DamagedRecordsError(TopicPartition("flights", 2), 17, 20, "its checksum does not match")
    return error_class("what is wrong")


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_every_error_comes_back_as_itself_through_a_problem_document(error_class: type[MainstemError]) -> None:
    error = example(error_class)
    document = json.loads(json.dumps(problems.problem_of(error)))
    returned = problems.error_from_problem(document)
    assert type(returned) is error_class
    assert (str(returned), vars(returned)) == (str(error), vars(error))


@pytest.mark.parametrize("error_class", [c for c in ERROR_CLASSES if issubclass(c, errors.InputError)])
def test_no_error_of_the_caller_is_answered_as_the_servers(error_class: type[MainstemError]) -> None:
    assert 400 <= problems.problem_of(example(error_class))["status"] < 500


def test_every_error_has_a_meaning_a_cause_and_a_cure_of_its_own() -> None:
    assert [each.__name__ for each in ERROR_CLASSES if each not in HELP] == [], "describe it in mainstem/error_help.py"
    texts = [(each.__doc__, *HELP[each]) for each in ERROR_CLASSES]
    assert [three for three in texts if not all(three)] == []
    for column in zip(*texts, strict=True):
        assert len(set(column)) == len(ERROR_CLASSES), "a text of one error says too little about another"


def test_an_error_of_a_package_has_the_help_of_its_ancestor() -> None:
    class FencedError(ProducerError):
        pass

    assert help_of(FencedError) == HELP[ProducerError]


def test_slugs_are_the_class_names_in_kebab_case() -> None:
    problem = problems.problem_of(example(PositionTimeoutError))
    assert (problem["type"], problem["status"]) == ("/problems/position-timeout", 504)


def test_an_error_outside_the_table_goes_by_its_nearest_ancestor() -> None:
    class FencedError(ProducerError):
        pass

    assert problems.problem_of(FencedError("x"))["type"] == "/problems/producer"


def test_a_problem_of_an_unknown_type_keeps_its_text() -> None:
    error = problems.error_from_problem({"type": "about:blank", "title": "Not Found", "status": 404})
    assert (type(error), str(error)) == (MainstemError, "Not Found")
