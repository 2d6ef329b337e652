"""``GET /problems/SLUG``: a small page for each type of problem, where the ``type`` of a problem document leads to.

Static text, open to everyone. Stateless.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Final

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from mainstem.gateway.http.problem_responses import HTTP_PROBLEMS, http_problem
from mainstem.problems import ProblemType, problem_types

_INTERNAL: Final = ProblemType(
    "internal", 500, "Internal error", "The request met a defect of Mainstem; the log of the process has the details."
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
def _pages() -> dict[str, ProblemType]:
    of_http = [ProblemType(slug, status, title, "") for status, (slug, title) in HTTP_PROBLEMS.items()]
    return {each.slug: each for each in (*of_http, _INTERNAL, *problem_types())}


def _page(problem: ProblemType) -> str:
    meaning = f"<p>{escape(problem.meaning.replace('``', ''))}</p>" if problem.meaning else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(problem.title)}</title>'
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}</style>"
        f"<h1>{escape(problem.title)}</h1>{meaning}<p>HTTP status {problem.status}. The member <code>detail</code> "
        "of the problem says what is wrong with this request, and what to do.</p></html>"
    )
