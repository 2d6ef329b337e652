"""HTTP to another process of the node, over its Unix socket: connections that are kept, answers as they come.

Nothing of a request or an answer is interpreted: no redirects, cookies, proxies or decompression. Used by one event
loop, which is known only when the first request is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

_ORIGIN: Final = "http://localhost"
_OWN_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
# Shorter than a server of ours keeps a silent connection, so that none is used that is being closed.
_KEPT_S: Final = 20.0
# A position of very many partitions is a header too.
_HEADER_BYTES_MAX: Final = 16 << 20


class UnixHttp:
    """One socket. ``connections_max`` 0: no bound; not ``keeps``: a connection of its own for each request."""

    def __init__(
        self,
        socket: Path,
        *,
        silence_s: float,
        connect_s: float | None = None,
        connections_max: int = 100,
        keeps: bool = True,
    ) -> None:
        """``silence_s``: how long the other side may send nothing before the request ends with a TimeoutError."""
        self._socket = socket
        self._timeout = aiohttp.ClientTimeout(total=None, sock_read=silence_s, sock_connect=connect_s)
        self._connections_max = connections_max
        self._keeps = keeps
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """The answer, its body still to be read. ``target``: path and query, as they go over the wire.

        Raises aiohttp.ClientError and TimeoutError.
        """
        url = URL(_ORIGIN + target, encoded=True)
        return await self._opened().request(
            method, url, headers=headers, data=content or None, allow_redirects=False, timeout=self._timeout
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            kept = {"keepalive_timeout": _KEPT_S} if self._keeps else {"force_close": True}
            connector = aiohttp.UnixConnector(str(self._socket), limit=self._connections_max, **kept)
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_OWN_HEADERS,
                max_field_size=_HEADER_BYTES_MAX,
            )
        return self._session
