from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from mainstem.client.failures import _OF_LIBRDKAFKA, error_of, heals
from mainstem.errors import (
    AuthenticationError,
    AuthorizationError,
    LogUnavailableError,
    MainstemError,
    RecordTooLargeError,
    RemoteError,
    UnknownTopicError,
)
from mainstem.protocol.errors import ErrorCode

LIBRDKAFKA_CODES = sorted(
    value for name in dir(KafkaError) if name.upper() == name and isinstance(value := getattr(KafkaError, name), int)
)


@pytest.mark.parametrize("code", LIBRDKAFKA_CODES)
def test_every_code_of_librdkafka_is_mapped(code: int) -> None:
    error = error_of(code, "trying", "because")
    assert isinstance(error, MainstemError)
    assert code in (_OF_LIBRDKAFKA if -200 <= code <= -100 else ErrorCode.__members__.values())


@pytest.mark.parametrize("code", [code for code in ErrorCode if code != ErrorCode.NONE])
def test_every_code_of_the_protocol_becomes_an_error_that_says_what_was_tried(code: ErrorCode) -> None:
    error = error_of(code, "trying")
    assert str(error).startswith("trying: ")
    assert isinstance(error, RemoteError) == (code.name in str(error))


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        (3, UnknownTopicError),
        (10, RecordTooLargeError),
        (-192, LogUnavailableError),
        (29, AuthorizationError),
        (58, AuthenticationError),
        (999, RemoteError),
    ],
)
def test_codes_become_the_class_that_says_whose_fault_it_is(code: int, error_class: type) -> None:
    assert type(error_of(code, "trying")) is error_class


def test_only_what_fresh_metadata_may_cure_heals() -> None:
    assert heals(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not heals(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not heals(ErrorCode.CORRUPT_MESSAGE)
