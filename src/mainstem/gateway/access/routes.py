"""Routes, each declared in one place: method, path, summary, the scope that it requires, its answers, its body.

``Routes`` adds a route to the framework and keeps its declaration. Authentication and the description of the API read
the declarations. Built once with the app, then only read.

The framework describes the parameters of a route, and its own way of reading them looks at their types again at each
request: a third of the time of a small one. So ``_DeclaredApiRoute`` reads them by itself where it can, with the same
models and the same errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from inspect import signature
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, compile_path

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


class _DeclaredApiRoute(APIRoute):
    """A route of the framework that reads texts of the path and models of the query by itself, if those are all."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._start = path.partition("{")[0]
        self._end = path.rpartition("}")[2]

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        """As the framework's; most routes are passed over by the fixed parts of their path."""
        path = scope["path"]
        if (path.startswith(self._start) and path.endswith(self._end)) or scope.get("root_path"):
            return super().matches(scope)
        return Match.NONE, {}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        known = self.dependant
        models: dict[str, Any] = {each.name: each.field_info.annotation for each in known.query_params}
        of_path = [each.field_info for each in known.path_params]
        has_texts = all(each.annotation is str and not each.metadata for each in of_path)
        read = {*(each.name for each in known.path_params), *models, known.request_param_name} - {None}
        is_all = read == signature(self.endpoint).parameters.keys() and len(models) <= 1
        if not (is_all and has_texts and all(map(_has_single_values, models.values()))):
            return super().get_route_handler()
        call: Callable[..., Awaitable[Response]] = self.endpoint

        async def handle(request: Request) -> Response:
            values: dict[str, Any] = {each.name: request.path_params[each.name] for each in known.path_params}
            if known.request_param_name is not None:
                values[known.request_param_name] = request
            for name, model in models.items():
                values[name] = _read_query(request, model)
            return await call(**values)

        return handle


def _has_single_values(model: Any) -> bool:
    """Whether a query parameter is a model whose fields have one value each."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return False
    return all(_is_of_one_value(field.annotation) for field in model.model_fields.values())


def _is_of_one_value(annotation: Any) -> bool:
    """Whether a query parameter of this type has one value: of a list, the framework reads all."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return all(map(_is_of_one_value, get_args(annotation)))
    return origin is Literal or (isinstance(annotation, type) and issubclass(annotation, str | int | float | NoneType))


def _read_query(request: Request, model: type[BaseModel]) -> BaseModel:
    """The query of a request; of a parameter that is given twice the last one. Raises RequestValidationError."""
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        found = [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from error


class Routes(APIRouter):
    """The routes of one part of the API. ``tag`` names the part in the description."""

    def __init__(self, tag: str) -> None:
        super().__init__(tags=[tag], route_class=_DeclaredApiRoute)
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
