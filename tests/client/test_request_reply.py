"""Request ids: they say where a request is, and cannot be made from what is in the log."""

from __future__ import annotations

import pytest

from mainstem.client.http.request_reply import (
    RequestId,
    correlation_id,
    error_text,
    fresh_secret,
    repeatable_secret,
    reply_topic_of,
)
from mainstem.errors import InputError, UnknownRequestError

HERE = RequestId(b"s" * 16, "orders.eu", 3, 17, 5)


def test_an_id_comes_back_from_its_text() -> None:
    assert RequestId.parse(str(HERE)) == HERE


def test_what_the_log_holds_is_not_the_secret() -> None:
    secret = fresh_secret()
    assert correlation_id(secret) != correlation_id(correlation_id(secret).encode()[:16])
    assert str(RequestId(secret, "t", 0, 0)).find(correlation_id(secret)) == -1


def test_the_same_parts_give_the_same_secret_and_no_other_parts_do() -> None:
    assert repeatable_secret("a", "b") == repeatable_secret("a", "b")
    assert len({repeatable_secret("a", "b"), repeatable_secret("ab", ""), repeatable_secret("", "ab")}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "é",
        "a" * 1000,
        str(HERE)[:-1],
        str(HERE) + "=",
        str(HERE) + "A",
        str(RequestId(b"s" * 16, "no topic", 0, 0)),
        str(RequestId(b"s" * 16, "__mainstem_replies.x", 0, 0)),
        str(RequestId(b"s" * 16, "t", 2**31, 0)),
        str(RequestId(b"s" * 16, "t", 0, 2**63)),
    ],
)
def test_what_never_was_an_id_is_unknown(text: str) -> None:
    with pytest.raises(UnknownRequestError):
        RequestId.parse(text)


@pytest.mark.parametrize("topic", ["__mainstem_replies.t", "t" * 240])
def test_a_topic_that_can_have_no_replies_is_refused(topic: str) -> None:
    with pytest.raises(InputError):
        reply_topic_of(topic)


def test_an_error_is_one_line() -> None:
    assert error_text(ValueError("a\nb")) == "ValueError: a b"
    assert len(error_text(ValueError("x" * 10_000))) == 500
