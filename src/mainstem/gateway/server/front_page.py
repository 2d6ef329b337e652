"""``GET /`` of a gateway without the console: what is here, and how to get the console. Stateless."""

from __future__ import annotations

import importlib.util

from fastapi import FastAPI
from starlette.responses import PlainTextResponse

import mainstem

_CONSOLE_MODULE = "nicegui"  # by name only: what is not installed cannot be imported


def add_front_page(app: FastAPI) -> None:
    """Say at ``/`` why there is no console."""
    if importlib.util.find_spec(_CONSOLE_MODULE) is None:
        why = "The console is not installed: pip install 'mainstem[console]'"
    else:
        why = "The console is turned off; start without --no-console."
    text = f"Mainstem {mainstem.__version__}\n{why}\nThe API is described at /docs, for programs at /openapi.json\n"

    @app.get("/", include_in_schema=False)
    async def front_page() -> PlainTextResponse:
        return PlainTextResponse(text)
