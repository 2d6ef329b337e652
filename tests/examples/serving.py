"""An App's log, views and gateway: real parts, over real sockets, in the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served


@contextmanager
def serving(app: App, directory: Path, limits: GatewayLimits | None = None) -> Iterator[tuple[Log, str]]:
    """The log, and the gateway's address."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=60) as log:
        deploy(app, log)
        with ViewHost(tuple(app.views.values()), broker.bootstrap, directory) as host:
            for view in app.views:
                host.wait(view, lambda status: status.state == "live", 120)
            with listening_on(create_host_app(host), listen_unix(directory / "s")):
                with served(create_app(log, ForwardingBackend([directory / "s"]), limits or GatewayLimits())) as client:
                    yield log, str(client.base_url)
