"""The routes of dead letters: grouped by reason, one by one, and marked as handled. They work on Apache Kafka, too."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mainstem.client.dead_letters import LETTERS_MAX, DeadLetters
from mainstem.client.log import Log
from mainstem.errors import InputError
from mainstem.gateway.access.access_rules import READ_ALL, READ_TOPIC, WRITE_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import Answers, Success, success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import LettersQuery, LetterTopicsQuery, NoQuery
from mainstem.gateway.topics.dead_letter_json import letter_json, letter_topics_json

_THREADS_MAX: Final = 2
_Place = Annotated[str, Field(max_length=40)]


class HandledBody(BaseModel):
    """The letters to mark: some by their places, those of a group, or all of the topic."""

    model_config = ConfigDict(extra="forbid")

    places: list[_Place] | None = Field(None, min_length=1, max_length=LETTERS_MAX, examples=[["0:12"]])
    group: str | None = Field(None, max_length=64, description="the `id` of a reason")
    all: bool = Field(False, description="all letters of the topic")
    handled: bool = Field(True, description="false: they are new again")


def dead_letter_router(log: Log) -> Routes:
    """All routes under ``/dead-letters``."""
    router, workers, known = Routes("topics"), Workers(_THREADS_MAX), DeadLetters(log)

    @router.declare(
        "GET",
        "/dead-letters",
        "The dead letters of views and pipelines, grouped by reason",
        READ_ALL,
        success("The topics of dead letters, and the groups", "Object"),
    )
    async def list_groups(query: Annotated[LetterTopicsQuery, Query()]) -> Response:
        return json_response(letter_topics_json(await workers.run(known.topics, query.topic)))

    @router.declare(
        "GET",
        "/dead-letters/{topic}",
        "Dead letters of one topic, newest first, with their records",
        READ_TOPIC,
        success("The letters", "Object"),
    )
    async def list_letters(topic: str, query: Annotated[LettersQuery, Query()]) -> Response:
        return json_response(await workers.run(_letters, known, topic, query))

    @router.declare(
        "POST",
        "/dead-letters/{topic}/handled",
        "Mark dead letters as handled, or as new again",
        WRITE_TOPIC,
        Answers((Success(200, "How many were changed", "Object"),), (409, 412)),
        body=HandledBody,
    )
    async def mark(topic: str, http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        body = await read_json(http, HandledBody)
        if (body.places is not None) + (body.group is not None) + body.all != 1:
            raise InputError("name the letters to mark in one way: places, group or all")
        changed = await workers.run(known.mark, topic, places=body.places, group=body.group, handled=body.handled)
        return json_response({"topic": topic, "handled": body.handled, "changed": changed})

    return router


def _letters(known: DeadLetters, topic: str, query: LettersQuery) -> dict[str, Any]:
    found = known.letters(topic, group=query.group, with_handled=query.handled, after=query.after)
    shown = [
        letter_json(letter, known.content(letter), is_handled=is_handled)
        for letter, is_handled in itertools.islice(found, query.limit)
    ]
    has_more = next(found, None) is not None
    return {"topic": topic, "letters": shown, "next": shown[-1]["place"] if shown and has_more else None}
