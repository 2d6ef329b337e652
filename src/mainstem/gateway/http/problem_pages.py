"""``GET /problems/SLUG``: a small page for each type of problem, where the ``type`` of a problem document leads to.

It says what the problem means, its causes and what to do: for errors of our tree from ``mainstem.errors`` and
``mainstem.error_help``, for what only HTTP has from a table here. Static text, open to everyone. Stateless.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from mainstem.error_help import ErrorHelp, help_of
from mainstem.gateway.http.problem_responses import HTTP_PROBLEMS, http_problem
from mainstem.problems import ProblemType, problem_classes, problem_type


class _Page(NamedTuple):
    """The content of a page."""

    problem: ProblemType
    help: ErrorHelp


HTTP_HELP: Final = {
    403: ErrorHelp(
        "A page of another site asks, or a secret would pass over a connection that others can read, or this gateway "
        "asks for no tokens and the request is for users and ACLs from another machine.",
        "Name the site's origin with `--cors-origin`, serve TLS with `--http-tls-cert`, or make tokens and start the "
        "gateway with `--http-tokens`.",
    ),
    404: ErrorHelp(
        "The path is misspelt, or this gateway was started without the part that serves it.",
        "`/openapi.json` lists what is served, and `/docs` shows it.",
    ),
    405: ErrorHelp(
        "The path exists, and does not take this method.",
        "Use a method that `/docs` shows for the path.",
    ),
    406: ErrorHelp(
        "`Accept` names only media types that the schema registry does not serve.",
        "Accept `application/vnd.schemaregistry.v1+json`, or leave the header out.",
    ),
    408: ErrorHelp(
        "The client announced a body and then sent nothing for some seconds.",
        "Send the body without pauses; if a proxy is in between, look at its time-outs.",
    ),
    413: ErrorHelp(
        "The body has more bytes or JSON values than the gateway takes in one request.",
        "Send it in parts. `mainstem.gateway.body.bytes.max` raises the bytes.",
    ),
    415: ErrorHelp(
        "The body's `Content-Type` is not the one that the route takes.",
        "Send JSON with `Content-Type: application/json`; the text names the type that is expected.",
    ),
    421: ErrorHelp(
        "`Host` has a name that this gateway does not know. It refuses such names, because a foreign page could use "
        "them to reach it.",
        "Use `localhost` or `127.0.0.1`. For the name of a reverse proxy, start the gateway with `--http-name`. A "
        "gateway that listens on another address takes every name.",
    ),
    431: ErrorHelp(
        "The request's line and headers are too long, or too many: often a long query or many cookies.",
        "Shorten them. Send a long list of keys in a body, or in several requests.",
    ),
}
"""By status, what only HTTP has. 400 and 503 have the slugs of errors of our tree, and their pages."""
_INTERNAL: Final = _Page(
    ProblemType("internal", 500, "Internal error", "The request met a defect of Mainstem."),
    ErrorHelp(
        "An exception that no part of the gateway expects.",
        "The output of the gateway's process, `DATA/run/gateway.log`, has the details. Report it with them.",
    ),
)
_HTTP: Final = _Page(
    ProblemType("http", 400, "The request was refused", "The server refused the request before it read it."),
    ErrorHelp("The request is not right as HTTP.", "Correct what `detail` of the problem names."),
)
_HEADERS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


def problem_pages_router() -> APIRouter:
    """``/problems/{slug}``."""
    router = APIRouter()

    @router.get("/problems/{slug}", include_in_schema=False)
    async def show(slug: str) -> Response:
        found = _pages().get(slug)
        if found is None:
            return http_problem(404, f"there is no problem type {slug[:100]!r}: use {', '.join(sorted(_pages()))}")
        return HTMLResponse(_page(found), headers=_HEADERS)

    return router


@cache
def _pages() -> dict[str, _Page]:
    of_http = [
        _Page(ProblemType(slug, status, title, ""), HTTP_HELP[status])
        for status, (slug, title) in HTTP_PROBLEMS.items()
        if status in HTTP_HELP
    ]
    of_errors = [_Page(problem_type(each), help_of(each)) for each in problem_classes()]
    return {each.problem.slug: each for each in (*of_http, _HTTP, _INTERNAL, *of_errors)}


def _page(page: _Page) -> str:
    problem = page.problem
    meaning = f"<p>{_html(problem.meaning.replace('``', '`'))}</p>" if problem.meaning else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(problem.title)}</title>'
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}</style>"
        f"<h1>{escape(problem.title)}</h1>{meaning}<h2>Cause</h2><p>{_html(page.help.cause)}</p>"
        f"<h2>What to do</h2><p>{_html(page.help.cure)}</p><p>HTTP status {problem.status}. The member "
        "<code>detail</code> of the problem says what is wrong with this request.</p></html>"
    )


def _html(text: str) -> str:
    """Text with code in backticks, as HTML."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
