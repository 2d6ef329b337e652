"""``GET /client.js``: the JavaScript module for web pages, one file that lies beside this one.

It is the same for everybody, so any page may import it, from any origin; what its functions may do is decided at each
of their requests. Browsers keep it and ask whether it is still the same (``ETag``).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Final

from fastapi import Header, Query
from starlette.responses import Response

from mainstem.gateway.access.access_rules import OPEN
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.description import Answers, Success
from mainstem.gateway.http.queries import NoQuery

_FILE: Final = Path(__file__).with_name("client.js")
_CONTENT_TYPE: Final = "text/javascript; charset=utf-8"
_ANSWERS: Final = Answers(
    (Success(200, "The module", "Text", ("ETag",), "text/javascript"), Success(304, "As it was", "Text", ("ETag",)))
)


def browser_router() -> Routes:
    """``/client.js``."""
    router = Routes("browser")
    module = _FILE.read_bytes()
    tag = f'"{hashlib.sha256(module).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Access-Control-Allow-Origin": "*"}

    @router.declare("GET", "/client.js", "The JavaScript module for web pages", OPEN, _ANSWERS)
    async def send_module(
        _: Annotated[NoQuery, Query()], if_none_match: Annotated[str, Header(alias="If-None-Match")] = ""
    ) -> Response:
        known = {entry.strip().removeprefix("W/") for entry in if_none_match.split(",")}
        if tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(module, headers=headers, media_type=_CONTENT_TYPE)

    return router
