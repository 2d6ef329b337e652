"""A gateway without the console says at ``/`` what there is instead."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI

from mainstem.gateway.server.front_page import add_front_page


def test_the_front_page_says_why_there_is_no_console() -> None:
    app = FastAPI()
    add_front_page(app)

    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get("/")

    answer = asyncio.run(get())
    assert answer.status_code == 200
    assert "--no-console" in answer.text or "mainstem[console]" in answer.text
    assert "/" not in app.openapi()["paths"]
