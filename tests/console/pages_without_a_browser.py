"""A program: ask for pages without a browser, and print which requests each sent to the gateway, as JSON.

``python -m tests.console.pages_without_a_browser PATH ...``; the gateway behind the console refuses everything.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys

import httpx
from nicegui import Client
from starlette.responses import JSONResponse

from mainstem.console.sign_in import Sessions
from mainstem.console.site import build
from mainstem.gateway.access.request_limits import Receive, Scope, Send


class _Refusing:
    """Notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = bytes(scope["query_string"]).decode()
        self.asked.append(scope["path"] + (f"?{query}" if query else ""))
        problem = {"title": "Refused", "detail": "this gateway refuses everything"}
        await JSONResponse(problem, 503)(scope, receive, send)


async def main(paths: list[str]) -> dict[str, list[str]]:
    """What each page asked for by the time its HTML was there, and all of that was answered."""
    gateway = _Refusing()
    app = build(gateway, Sessions(None))
    found = {}
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        for path in paths:
            gateway.asked.clear()
            (await client.get(path)).raise_for_status()
            begun = [task for task in asyncio.all_tasks() if task.get_name().startswith("begin ")]
            await asyncio.wait([*begun, asyncio.create_task(asyncio.sleep(0))])
            found[path] = sorted(gateway.asked)
            begun.clear()
            for each in list(Client.instances.values()):  # as when no browser came
                each.delete()
            gc.collect()  # now asyncio logs the errors that nobody took
    return found


if __name__ == "__main__":
    logging.basicConfig()
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1:]))))
