"""Checks a command line of a page without running it: our commands by their own parser, requests by OpenAPI."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import duckdb
import typer

from mainstem.cli.main import command_line
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.monitoring.monitor import Monitor
from mainstem.gateway.operation.log_metrics import LogMetrics
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from tests.house.pages import ROOT

_MISSING = (
    "Missing argument",
    "Missing option",
    "Missing parameter",
    "Missing command",
    "requires an argument",
    "does not exist",
)


def words_of(line: str) -> list[str]:
    """The words of a command line, without what the shell makes of it: variables before it, comments, pipes, ``&``."""
    words = shlex.split(line, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    ends = [at for at, word in enumerate(words) if word in ("|", "&", "&&", ">", "||")]
    return words[: ends[0]] if ends else words


def wrong_in(line: str, *, in_passing: bool = False) -> str | None:
    """What is wrong with a command line; None if it is right, or another program's."""
    try:
        words = words_of(line)
    except ValueError as error:
        return str(error)
    if words[:1] == ["mainstem"]:
        return _wrong_command(words[1:], in_passing)
    if words[:1] == ["curl"]:
        return _wrong_request(words[1:])
    if words[:1] == ["make"]:
        return None if all(word in _targets() for word in words[1:] if re.fullmatch("[a-z-]+", word)) else "no target"
    if words[:1] == ["python"] and words[1:2] and words[1].startswith("examples/"):
        return None if (ROOT / words[1]).is_file() else "no such file"
    return None


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def _commands() -> Any:
    return typer.main.get_command(command_line())


def _wrong_command(words: list[str], in_passing: bool) -> str | None:
    """Parse each level as the command line itself does; nothing is called."""
    command, name = _commands(), "mainstem"
    try:
        context = command.make_context(name, list(words))
        while hasattr(command, "resolve_command"):
            left = [*context._protected_args, *context.args]
            if not left:
                return None
            name, command, left = command.resolve_command(context, left)
            if in_passing and not left:
                return None
            context = command.make_context(name, left, parent=context)
    except typer.Exit:
        return None
    except typer.TyperException as error:
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        return None if any(each in text for each in _MISSING if in_passing or each == _MISSING[-1]) else text
    return _wrong_sql(words)


def _wrong_sql(words: list[str]) -> str | None:
    return next(filter(None, (wrong_sql(word) for word in words if re.match("SELECT ", word))), None)


def wrong_sql(text: str) -> str | None:
    """What DuckDB's parser says of SQL text; None if it takes it."""
    try:
        duckdb.extract_statements(text)
    except duckdb.Error as error:
        return str(error)
    return None


@cache
def _operations() -> list[tuple[re.Pattern[str], str, set[str]]]:
    """The gateway's routes: what their paths look like, their methods, and the names of their query parameters."""
    nowhere = LogMetrics(Path("nowhere"))
    log, views = Log("127.0.0.1:1"), ForwardingBackend([])
    document = create_app(log, views, GatewayLimits(), nowhere, monitor=Monitor(log, nowhere, views)).openapi()
    return [
        (
            re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))),
            method.upper(),
            {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"},
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def wrong_route(method: str, target: str) -> str | None:
    """What is wrong with a request's method, path and parameters; None if the gateway has such a route."""
    parts = urlsplit(target)
    path = unquote(parts.path)
    fitting = [each for each in _operations() if each[0].fullmatch(path)]
    if not fitting:
        return f"no route {path}"
    of_method = [each for each in fitting if each[1] == method]
    if not of_method:
        return f"{path} has no {method}"
    unknown = set(parse_qs(parts.query, keep_blank_values=True)) - set.union(*(each[2] for each in of_method))
    return f"{path} has no parameter {sorted(unknown)}" if unknown else None


def _wrong_request(words: list[str]) -> str | None:
    """A request of ours by ``curl``: its address, and its body as JSON."""
    body = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-d", "--data")), None)
    method = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-X", "--request")), None)
    addresses = [found[1] for word in words if (found := re.fullmatch(r"(?:https?://)?localhost(?::\d+)?(/.*)", word))]
    if len(addresses) != 1:
        return None if not addresses else "more than one address"
    if body is not None and "…" not in body:
        try:
            json.loads(body)
        except ValueError as error:
            return f"the body is not JSON: {error}"
    return wrong_route(method or ("GET" if body is None else "POST"), addresses[0])
