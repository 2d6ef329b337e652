"""Declared routes answer as the framework's own would: the same parameters, the same errors."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import httpx
import pytest
from fastapi import APIRouter, Cookie, FastAPI, Query, Request
from pydantic import Field
from starlette.responses import Response

from mainstem.gateway.access.access_rules import OPEN
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.description import OBJECT
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import LastEventId, NoQuery
from mainstem.gateway.server.app import assemble
from mainstem.gateway.streams.event_stream import Streams


class Word(StrEnum):
    """An action in a path."""

    STOP = "stop"


class OneValueQuery(NoQuery):
    """Parameters of one value each."""

    text: str | None = Field(None, alias="from", max_length=5)
    number: int = Field(1, ge=0, le=10)
    flag: bool = False
    choice: Literal["a", "b"] = "a"
    needed: float = Field()


class ListQuery(NoQuery):
    """A parameter that may be given several times."""

    words: list[str] = Field(default_factory=list, max_length=2)


def _answer(**values: Any) -> Response:
    return json_response({name: value if isinstance(value, str) else str(value) for name, value in values.items()})


def _app(router: type[APIRouter]) -> FastAPI:
    routes = Routes("things")
    if router is APIRouter:
        routes.route_class = APIRouter().route_class

    @routes.declare("GET", "/things/{thing}/one", "One", OPEN, OBJECT)
    async def one(http: Request, thing: str, query: Annotated[OneValueQuery, Query()]) -> Response:
        return _answer(method=http.method, thing=thing, query=query)

    @routes.declare("GET", "/things/{thing}/many", "Many", OPEN, OBJECT)
    async def many(thing: str, query: Annotated[ListQuery, Query()]) -> Response:
        return _answer(thing=thing, query=query)

    @routes.declare("POST", "/things/{number}/{word}", "Typed", OPEN, OBJECT)
    async def typed(number: int, word: Word, _: Annotated[NoQuery, Query()], last: LastEventId = "") -> Response:
        return _answer(number=number, word=word, last=last)

    @routes.declare("GET", "/things/{thing}/other", "Other", OPEN, OBJECT)
    def other(thing: str, number: int = 1, color: Annotated[str, Cookie()] = "red") -> Response:
        return _answer(thing=thing, number=number, color=color)

    @routes.declare("GET", "/things/{rest:path}", "The rest", OPEN, OBJECT)
    async def others(rest: str, _: Annotated[NoQuery, Query()]) -> Response:
        return _answer(rest=rest)

    return assemble("Things", (routes,), GatewayLimits(host_names=None), streams=Streams())


_REQUESTS: Final = (
    *(
        ("GET", f"/things/a%20b/one?{query}")
        for query in (
            "needed=1.5",
            "needed=1.5&from=x&number=3&flag=true&choice=b",
            "needed=1&needed=2",
            "",
            "needed=x",
            "needed=1&number=11",
            "needed=1&number=",
            "needed=1&flag=maybe",
            "needed=1&choice=c",
            "needed=1&from=toolong",
            "needed=1&text=x",
            "needed=1&unknown=1&unknown=2",
            "needed=1&from=%FF%00%D8",
        )
    ),
    *(
        ("GET", f"/things/a/many?{query}")
        for query in ("", "words=a", "words=a&words=b", "words=a&words=b&words=c", "x=1")
    ),
    *(("GET", f"/things/a/other?{query}") for query in ("", "number=2", "number=x")),
    ("POST", "/things/1/stop"),
    ("POST", "/things/x/stop"),
    ("POST", "/things/1/go"),
    ("GET", "/things/a/b/c"),
    ("GET", "/things/a/one/"),
    ("GET", "/things"),
    ("PUT", "/things/a/one"),
    ("HEAD", "/things/a/one?needed=1"),
)


def _answered(router: type[APIRouter], method: str, target: str, root_path: str = "") -> tuple[int, str | None, str]:
    """Status, media type and body of the answer of an app whose routes are of the kind that ``router`` makes."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(_app(router), raise_app_exceptions=False, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, root_path + target)

    answer = asyncio.run(ask())
    return answer.status_code, answer.headers.get("content-type"), answer.text


@pytest.mark.parametrize(("method", "target"), _REQUESTS)
def test_a_declared_route_answers_as_one_of_the_framework(method: str, target: str) -> None:
    answer = _answered(Routes, method, target)
    assert answer == _answered(APIRouter, method, target)
    assert answer[0] < 500


def test_routes_are_found_below_the_prefix_of_a_proxy() -> None:
    status, _, text = _answered(Routes, "GET", "/things/a/one?needed=1", "/below")
    assert (status, json.loads(text)["thing"]) == (200, "a")
