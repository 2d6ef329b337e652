"""Routes, each declared in one place: method, path, summary, the scope that it requires, its answers, its body.

``Routes`` adds a route to the framework and keeps its declaration. Authentication and the description of the API read
the declarations. Built once with the app, then only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import compile_path

from mainstem.gateway.access.access_rules import AccessRule, AccessRules
from mainstem.gateway.http.bodies import BodySchema, body_of
from mainstem.gateway.http.description import Answers

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class DeclaredRoute(NamedTuple):
    """A route, as authentication and the description see it."""

    method: str
    path: str
    rule: AccessRule
    answers: Answers


class Routes(APIRouter):
    """The routes of one part of the API. ``tag`` names the part in the description."""

    def __init__(self, tag: str) -> None:
        super().__init__(tags=[tag])
        self.declared: list[DeclaredRoute] = []

    def declare(
        self,
        method: str,
        path: str,
        summary: str,
        rule: AccessRule,
        answers: Answers,
        *,
        body: type[BaseModel] | BodySchema | None = None,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add the decorated function as a route. ``body``: the JSON body, which the function reads."""

        def add(endpoint: Endpoint) -> Endpoint:
            self.declared.append(DeclaredRoute(method, path, rule, answers))
            extra = None if body is None else body_of(body)
            self.add_api_route(
                path, endpoint, methods=[method], summary=summary, response_class=Response, openapi_extra=extra
            )
            return endpoint

        return add


def rules_of(routers: Iterable[Routes]) -> AccessRules:
    """The access rules of an app's routes."""
    return AccessRules(each[:3] for router in routers for each in router.declared)


def answers_of(routers: Iterable[Routes]) -> Mapping[tuple[str, str], Answers]:
    """The answers of an app's routes, by method (in lower case) and path, as the framework describes them."""
    return {
        (each.method.lower(), compile_path(each.path)[1]): each.answers
        for router in routers
        for each in router.declared
    }
