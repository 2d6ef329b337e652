"""Pages of other origins: shut out by default, let in by name."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.errors import ConfigError
from mainstem.gateway.access.cors import checked_origins
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from tests.gateway.served import served
from tests.gateway.test_bad_input import is_problem

FRIEND, STRANGER = "https://shop.example", "https://elsewhere.example"
BODY = {"records": [{"value": 1}]}


@pytest.fixture(scope="module")
def open_api(session_log: Log) -> Iterator[httpx.Client]:
    limits = GatewayLimits(origins=frozenset({FRIEND}))
    with served(create_app(session_log, ForwardingBackend([]), limits)) as client:
        yield client


def test_a_named_origin_may_write_and_read_the_answer(open_api: httpx.Client, mainstem_topic: str) -> None:
    answer = open_api.post(f"/topics/{mainstem_topic}/records", json=BODY, headers={"Origin": FRIEND})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (201, FRIEND)
    assert "Origin" in answer.headers["Vary"]
    assert {"Mainstem-Position", "ETag", "Location"} <= set(answer.headers["Access-Control-Expose-Headers"].split(", "))
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_a_named_origin_can_read_what_went_wrong(open_api: httpx.Client) -> None:
    answer = open_api.get("/topics/never-was", headers={"Origin": FRIEND})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (404, FRIEND)
    early = open_api.get("/topics/%FF", headers={"Origin": FRIEND})
    assert (early.status_code, early.headers["Access-Control-Allow-Origin"]) == (400, FRIEND)


def test_a_preflight_tells_what_may_be_sent(open_api: httpx.Client) -> None:
    asks = {"Origin": FRIEND, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "if-match"}
    answer = open_api.options("/topics/x/records", headers=asks)
    assert (answer.status_code, answer.content) == (204, b"")
    assert {"If-Match", "Authorization"} <= set(answer.headers["Access-Control-Allow-Headers"].split(", "))
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]


@pytest.mark.parametrize("origin", [STRANGER, "null", FRIEND + ":8443", "https://[", "https://shop.example.evil"])
def test_other_origins_stay_outside(open_api: httpx.Client, mainstem_topic: str, origin: str) -> None:
    answer = open_api.post(f"/topics/{mainstem_topic}/records", json=BODY, headers={"Origin": origin})
    is_problem(answer, 403)
    preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for shut in (answer, open_api.options("/topics", headers=preflight)):
        assert not [name for name in shut.headers if name.startswith("access-control")]


def test_no_origin_is_let_in_unless_it_is_named(api: httpx.Client) -> None:
    answer = api.get("/topics", headers={"Origin": FRIEND})
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("origin", ["shop.example", "https://shop.example/path", "null", "ftp://a", "*"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError):
        checked_origins([origin], has_tokens=False)


def test_every_origin_may_be_named_where_tokens_are_asked_for() -> None:
    assert checked_origins(["*", "https://Shop.example/"], has_tokens=True) == {"*", FRIEND}
