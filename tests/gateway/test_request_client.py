"""``ms.requests``: the client of request and reply, over a real gateway, with workers that answer, fail or are late."""

from __future__ import annotations

import httpx
import pytest

from mainstem.client.http.requests import RequestClient, requests
from mainstem.client.log import Log
from mainstem.errors import RequestFailedError, UnavailableError, UnknownRequestError, UnknownTopicError
from mainstem.model import Position, Record
from tests.gateway.answering import answer_by_hand, working


@pytest.fixture
def client(api: httpx.Client) -> RequestClient:
    return requests(str(api.base_url))


def test_a_request_has_its_reply(client: RequestClient, session_log: Log, mainstem_topic: str) -> None:
    def reply(request: Record) -> object:
        return {"key": (request.key or b"").decode(), "tier": dict(request.headers)["tier"] == b"gold"}

    with working(session_log, mainstem_topic, reply):
        asked = client[mainstem_topic].ask({"n": 1}, key="UA", headers={"tier": "gold"}, timeout=60)
    assert asked.value == {"key": "UA", "tier": True}
    assert asked.position == Position.of(mainstem_topic, 0, 1)
    assert asked.reply is not None
    assert asked.reply.position == Position.of(f"__mainstem_replies.{mainstem_topic}", 0, 1)


def test_what_is_not_answered_in_time_is_found_later(
    client: RequestClient, session_log: Log, mainstem_topic: str
) -> None:
    asked = client[mainstem_topic].ask("later", timeout=0)
    assert asked.reply is None
    with pytest.raises(UnavailableError, match="look again"):
        _ = asked.value
    answer_by_hand(session_log, mainstem_topic, "here")
    assert client.look(asked.id, timeout=60).value == "here"


def test_errors_are_those_of_the_gateway(client: RequestClient, session_log: Log, mainstem_topic: str) -> None:
    with working(session_log, mainstem_topic, lambda _: 1 / 0):
        with pytest.raises(RequestFailedError, match="ZeroDivisionError"):
            client[mainstem_topic].ask(1, timeout=60)
    with pytest.raises(UnknownTopicError):
        client["no-such-topic-of-requests"].ask(1)
    with pytest.raises(UnknownRequestError):
        client.look("never/was")


def test_a_request_with_a_key_is_made_once(client: RequestClient, session_log: Log, mainstem_topic: str) -> None:
    topic = f"{mainstem_topic}-once"
    session_log.create_topic(topic, partitions=1, configs={"mainstem.idempotency.window.ms": "60000"})
    asked = [client[topic].ask("again", timeout=0, idempotency_key="one") for _ in range(3)]
    assert {each.position for each in asked} == {Position.of(topic, 0, 1)}
    assert len({each.id for each in asked}) == 1
