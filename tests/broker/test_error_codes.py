from __future__ import annotations

import pytest

import mainstem.errors
from mainstem.broker.error_codes import error_code, refusal
from mainstem.errors import MainstemError, RemoteError
from mainstem.protocol.errors import ErrorCode

# What a broker never raises: errors of views, pipelines and clients. They would be answered as unexpected.
_OF_OTHERS = {"MainstemError"}


def all_errors() -> list[type[MainstemError]]:
    found = [value for value in vars(mainstem.errors).values() if isinstance(value, type)]
    return [kind for kind in found if issubclass(kind, MainstemError) and kind.__name__ not in _OF_OTHERS]


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_of_the_protocol(kind: type[MainstemError]) -> None:
    error = kind.__new__(kind)
    if isinstance(error, RemoteError):
        error.code = 3
    assert error_code(error) not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_refusal_keeps_its_code_and_says_whether_to_retry() -> None:
    error = refusal(ErrorCode.NOT_COORDINATOR)
    assert (error_code(error), error.retriable, error.name) == (ErrorCode.NOT_COORDINATOR, True, "NOT_COORDINATOR")
