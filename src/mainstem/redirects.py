"""Requests over HTTP that follow no redirect: who configured an address has named the one that is meant.

Loads the standard library's HTTP client, which takes some milliseconds: import this module where the request is sent.
"""

from __future__ import annotations

from typing import Any
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, build_opener


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: a redirect is an HTTPError."""
        return


def direct_opener(*, proxies: bool) -> OpenerDirector:
    """An opener that follows no redirect. ``proxies``: whether it uses those of the environment."""
    return build_opener(ProxyHandler(None if proxies else {}), _NoRedirects())
