"""Request and reply over HTTP, with workers that answer, answer late, fail, or never come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import pytest

from mainstem.client.http.request_reply import CORRELATION_ID, RequestId, reply_topic_of
from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.errors import RequestExpiredError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.requests.request_reply import REPLY_RETENTION_MS, Requests
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from tests.gateway.answering import answer_by_hand, working
from tests.gateway.served import served
from tests.gateway.test_bad_input import is_problem

LATER = {"Prefer": "respond-async"}


@contextmanager
def another_gateway(log: Log) -> Iterator[httpx.Client]:
    with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as client:
        yield client


def ask(api: httpx.Client, topic: str, value: object = 1, **options: object) -> httpx.Response:
    headers: dict[str, str] = options.pop("headers", {})  # type: ignore[assignment]
    return api.post(f"/topics/{topic}/requests", json={"value": value, **options}, headers=headers)


def test_a_request_is_answered_by_a_worker(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    def twice(request: object) -> object:
        return {"twice": 2 * int(request.value)}  # type: ignore[attr-defined]

    with working(session_log, mainstem_topic, twice):
        answers = [ask(api, mainstem_topic, number, timeout_s=60) for number in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 5, answers[0].text
    assert [answer.json()["reply"]["value"] for answer in answers] == [{"twice": 2 * n} for n in range(5)]
    assert answers[4].headers["Mainstem-Position"] == f"{mainstem_topic}/0:5"


def test_a_late_reply_is_found_after_a_restart_of_the_gateway(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    asked = ask(api, mainstem_topic, headers=LATER)
    assert (asked.status_code, asked.headers["Preference-Applied"]) == (202, "respond-async")
    place = asked.headers["Location"]
    with another_gateway(session_log) as restarted:
        assert restarted.get(place).status_code == 202
        assert answer_by_hand(session_log, mainstem_topic, {"by": "hand"}, colour="red") == 1
        found = restarted.get(place).json()
    assert found["reply"]["value"] == {"by": "hand"}
    assert found["reply"]["headers"] == [{"name": "colour", "value": "red"}]


def test_who_looks_waits_for_the_reply(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    place = ask(api, mainstem_topic, headers=LATER).headers["Location"]
    looked: list[httpx.Response] = []
    looking = threading.Thread(target=lambda: looked.append(api.get(place, params={"timeout": 60}, timeout=90)))
    looking.start()
    answer_by_hand(session_log, mainstem_topic, "here")
    looking.join(90)
    assert looked[0].json()["reply"]["value"] == "here"


def test_a_request_keeps_numbers_as_they_are_written(api: httpx.Client, mainstem_log: Log, mainstem_topic: str) -> None:
    content = b'{"value": {"price": 1.50, "sizes": [1e3, 2, "1.50"]}, "timeout_s": 0}'
    head = {"content-type": "application/json"}
    assert api.post(f"/topics/{mainstem_topic}/requests", content=content, headers=head).status_code == 202
    [record] = mainstem_log.read(mainstem_topic)
    assert record.value == b'{"price":1.50,"sizes":[1e3,2,"1.50"]}'


def test_what_is_not_answered_in_time_is_202(api: httpx.Client, mainstem_topic: str) -> None:
    answer = ask(api, mainstem_topic, timeout_s=0.01)
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert api.get(answer.headers["Location"], params={"timeout": 0.01}).status_code == 202
    assert ask(api, mainstem_topic, headers={"Prefer": "wait=0"}).headers["Preference-Applied"] == "wait=0"


def test_a_worker_that_fails_is_a_502_that_says_why(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    def fail(_: object) -> object:
        raise ValueError("no such\nflight")

    with working(session_log, mainstem_topic, fail):
        answer = ask(api, mainstem_topic, timeout_s=60)
    is_problem(answer, 502, "ValueError: no such flight")
    assert answer.json()["type"] == "/problems/request-failed"


def test_the_first_reply_counts(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    place = ask(api, mainstem_topic, headers=LATER).headers["Location"]
    for value in ("first", "second"):
        answer_by_hand(session_log, mainstem_topic, value)
    assert api.get(place).json()["reply"]["value"] == "first"


def test_the_id_of_another_cannot_be_made_from_the_log(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    ask(api, mainstem_topic, headers=LATER)
    answer_by_hand(session_log, mainstem_topic, "secret")
    [request] = session_log.read(mainstem_topic)
    seen = dict(request.headers)[CORRELATION_ID] or b""
    for secret in (seen[:16], bytes(16)):
        is_problem(api.get(f"/requests/{RequestId(secret, mainstem_topic, 0, 0)}"), 404)


@pytest.mark.parametrize("place", ["nothing", "%00", "a" * 700])
def test_an_unknown_request_is_404(api: httpx.Client, place: str) -> None:
    is_problem(api.get(f"/requests/{place}"), 404)


def test_a_request_of_a_topic_that_is_gone_is_404(api: httpx.Client, mainstem_topic: str) -> None:
    is_problem(api.get(f"/requests/{RequestId(bytes(16), 'never-was', 0, 0)}"), 404)
    is_problem(api.get(f"/requests/{RequestId(bytes(16), mainstem_topic, 0, 99)}"), 404)
    is_problem(api.get(f"/requests/{RequestId(bytes(16), mainstem_topic, 9, 0)}"), 404)


def test_who_waits_when_the_gateway_stops_is_told_where_to_look(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    app = create_app(session_log, ForwardingBackend([]), GatewayLimits())
    with ThreadPoolExecutor() as pool, served(app, grace_s=60) as stopping, session_log.follow(mainstem_topic) as asked:
        answer = pool.submit(ask, stopping, mainstem_topic, timeout_s=300)
        next(asked)
        app.state.streams.end()
        told = answer.result(60)
    assert told.status_code == 202, told.text
    assert answer_by_hand(session_log, mainstem_topic, "late") == 1
    assert api.get(told.headers["Location"], params={"timeout": 60}).json()["reply"]["value"] == "late"


def test_a_request_behind_an_open_transaction_is_pending(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    with suppress(InterruptedError), session_log.transaction() as tx:
        tx.append(mainstem_topic, b"." * 500_000)  # so much that it is sent before the end
        assert session_log.end(mainstem_topic) == Position.of(mainstem_topic, 0, 1)
        asked = ask(api, mainstem_topic, headers=LATER)
        place = asked.headers["Location"]
        looked = api.get(place)
        raise InterruptedError("aborts the transaction")
    assert (looked.status_code, looked.json()) == (202, asked.json()), looked.text
    assert answer_by_hand(session_log, mainstem_topic, "done") == 1
    assert api.get(place, params={"timeout": 60}).json()["reply"]["value"] == "done"


def test_a_request_that_outlived_what_replies_are_kept_for_is_expired(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    class Tomorrow(SystemClock):
        def time_ms(self) -> int:
            return super().time_ms() + REPLY_RETENTION_MS + 1000

    request = RequestId.parse(ask(api, mainstem_topic, headers=LATER).json()["id"])
    with pytest.raises(RequestExpiredError):
        Requests(session_log, Tomorrow()).pending(request)


def test_an_idempotency_key_with_another_record_key_is_another_request(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    topic = f"{mainstem_topic}-keys"
    session_log.create_topic(topic, partitions=1, configs={"mainstem.idempotency.window.ms": "60000"})
    asked = [ask(api, topic, key=key, headers={**LATER, "Idempotency-Key": "payment-18"}) for key in ("a", "b", "a")]
    assert answer_by_hand(session_log, topic, "paid") == 2
    answers = [api.get(each.headers["Location"], params={"timeout": 60}) for each in asked]
    assert [answer.status_code for answer in answers] == [200, 200, 200], answers[1].text
    assert asked[0].json() == asked[2].json() != asked[1].json()


def test_a_repeated_request_is_the_first_one(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    topic = f"{mainstem_topic}-once"
    session_log.create_topic(topic, partitions=2, configs={"mainstem.idempotency.window.ms": "60000"})
    once = {**LATER, "Idempotency-Key": "payment-17"}
    first, again = ask(api, topic, headers=once), ask(api, topic, headers=once)
    assert (first.status_code, first.json()) == (202, again.json())
    assert answer_by_hand(session_log, topic, "paid") == 1
    repeated = ask(api, topic, headers={"Idempotency-Key": "payment-17"})
    assert (repeated.status_code, repeated.json()["reply"]["value"]) == (200, "paid")
    [request] = session_log.read(topic)
    assert b"payment-17" not in dict(request.headers).values()


def test_more_than_may_wait_are_told_to_come_back(session_log: Log, mainstem_topic: str) -> None:
    import asyncio

    from mainstem.errors import UnavailableError
    from mainstem.gateway.requests.reply_follower import Replies

    async def scenario() -> int:
        replies = Replies(session_log, pending_max=1)
        async with replies.expecting(mainstem_topic, "a"):
            with pytest.raises(UnavailableError, match="respond-async"):
                async with replies.expecting(mainstem_topic, "b"):
                    raise AssertionError
        await replies.close()
        return replies.pending

    assert asyncio.run(scenario()) == 0


def test_room_for_another_topic_is_made_where_nobody_waits(session_log: Log, mainstem_topic: str) -> None:
    import asyncio

    from mainstem.gateway.requests.reply_follower import Replies

    other = f"{mainstem_topic}-other"
    session_log.create_topic(other, partitions=1)

    async def scenario() -> bytes | None:
        replies = Replies(session_log, followers_max=1)
        async with replies.expecting(mainstem_topic, "a"):
            pass
        async with replies.expecting(other, "b") as expected:
            session_log.append(other, "reply", key="b")
            record = await asyncio.wait_for(expected, 60)
        await replies.close()
        return record.value if record else None

    assert asyncio.run(scenario()) == b"reply"


@pytest.mark.parametrize(
    "body", [{}, {"value": 1, "timeout_s": -1}, {"value": 1, "timeout_s": 1e9}, {"value": 1, "partition": 0}]
)
def test_a_request_that_is_wrong_is_refused(api: httpx.Client, mainstem_topic: str, body: dict[str, object]) -> None:
    is_problem(api.post(f"/topics/{mainstem_topic}/requests", json=body), 400)


def test_who_asks_sets_no_header_of_ours(api: httpx.Client, mainstem_topic: str) -> None:
    is_problem(ask(api, mainstem_topic, headers={}, headers_=1), 400)
    refused = api.post(f"/topics/{mainstem_topic}/requests", json={"value": 1, "headers": {CORRELATION_ID: "x"}})
    is_problem(refused, 400, CORRELATION_ID)


def test_topics_that_take_no_requests_say_so(api: httpx.Client, mainstem_topic: str) -> None:
    is_problem(ask(api, "never-was"), 404)
    is_problem(ask(api, reply_topic_of(mainstem_topic)), 400, "takes no requests")
