"""The HTTP of a view host, for its Unix socket: the routes of the views over a host in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import assemble
from mainstem.gateway.streams.event_stream import Streams
from mainstem.gateway.views.backend import LocalBackend
from mainstem.gateway.views.view_routes import view_router

if TYPE_CHECKING:
    from mainstem.views.host.host import ViewHost


def create_host_app(host: ViewHost) -> FastAPI:
    """The app of one view host. The permissions of its socket control access, so any host name is served."""
    streams = Streams()
    limits = GatewayLimits(host_names=None)
    return assemble("Mainstem view host", (view_router(LocalBackend(host, streams)),), limits, streams=streams)
