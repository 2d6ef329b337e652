"""The processes of one node, put together: what ``serve``, ``run`` and ``demo`` start.

Addresses are settled before a process starts, so that a process which dies comes back at the same one. Used by one
thread.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from mainstem.addresses import Address, parse_address
from mainstem.errors import ConfigError
from mainstem.extras import missing_modules
from mainstem.node import roles
from mainstem.node.layout import HISTORY_FILE, Layout
from mainstem.node.roles import HttpAccess, LogOutput
from mainstem.node.supervisor import METRICS_FILE, Report, Supervisor


class Stack:
    """The processes over one data directory; a context manager that stops them in order."""

    def __init__(self, data: Path, report: Report) -> None:
        self.layout = Layout(data.absolute())
        self.layout.make_directories()
        self.supervisor = Supervisor(self.layout.run, report)
        self._has_log = False

    def launch_log(
        self,
        listen: str,
        settings: Sequence[str] = (),
        *,
        insecure: bool = False,
        output: LogOutput = LogOutput(),  # noqa: B008  # immutable
    ) -> str:
        """Start the log; the address of its first listener.

        ``supervisor.wait_ready("log")`` tells when it accepts, and raises what the log says of a wrong setting.
        """
        addresses = ",".join(_settled_listener(part) for part in listen.split(","))
        role = roles.log_role(self.layout.data, addresses, self._metrics, settings, insecure=insecure, output=output)
        self.supervisor.launch(role)
        self._has_log = True
        return addresses.partition(",")[0].rpartition("://")[2]

    def start_log(self, listen: str, settings: Sequence[str] = ()) -> str:
        """Start the log and wait for it; its address."""
        address = self.launch_log(listen, settings)
        self.supervisor.wait_ready("log")
        return address

    def launch_gateway(
        self,
        bootstrap: str,
        http: str,
        *,
        views: bool = False,
        access: HttpAccess = HttpAccess(),  # noqa: B008  # immutable
        console: bool = True,
    ) -> str:
        """Start the gateway, before the view host's socket if there is one; its address.

        It has the console unless that is not wanted, or not installed, and the log's metrics if it is this node's.
        """
        address = settled(http)
        sockets = [self.layout.socket("views")] if views else []
        console = console and not missing_modules("console")
        run = self.layout.run
        metrics = [self._metrics, run / METRICS_FILE, run / HISTORY_FILE] if self._has_log else []
        role = roles.gateway_role(bootstrap, address, metrics, sockets, access, console=console)
        self.supervisor.launch(role)
        return address

    def launch_registry(self, bootstrap: str, address: str, access: HttpAccess) -> str:
        """Start the schema registry at an address of its own; its address."""
        address = settled(address)
        self.supervisor.launch(roles.registry_role(bootstrap, address, access))
        return address

    @property
    def _metrics(self) -> Path:
        """The socket on which the log process serves its metrics, and the gateway asks for them."""
        return self.layout.socket("metrics")

    def launch_views(self, app_file: Path, bootstrap: str) -> None:
        """Start one view host for all views of an App."""
        socket_path = self.layout.socket("views")
        self.supervisor.launch(roles.view_host_role(app_file, bootstrap, self.layout.data, socket_path))

    def launch_backup(self, url: str, every_s: float, keep_s: float) -> None:
        """Start the backup of the data directory. The node does not wait for it, nor for its store."""
        self.supervisor.launch(roles.backup_role(self.layout.data, url, every_s, keep_s))

    def launch_capture(self, app_file: Path, bootstrap: str, capture: str) -> str:
        """Start one capture of a database; the name of its process."""
        role = roles.capture_role(app_file, bootstrap, capture)
        self.supervisor.launch(role)
        return role.name

    def launch_pipelines(
        self,
        app_file: Path,
        app_name: str,
        bootstrap: str,
        master: str,
        *,
        once: bool = False,
        changed: Sequence[str] = (),
    ) -> None:
        """Start the Spark driver for all pipelines of an App."""
        checkpoints = self.layout.checkpoints(app_name)
        role = roles.pipelines_role(app_file, bootstrap, master, checkpoints, once=once, changed=changed)
        self.supervisor.launch(role)

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.supervisor.stop()


def settled(address: str) -> str:
    """``HOST:PORT`` with port 0 replaced by one that is free now. Raises ConfigError for an invalid address."""
    host, port = parse_address(address)
    return address if port else str(Address(host, free_port(host)))


def _settled_listener(text: str) -> str:
    prefix, separator, address = text.strip().rpartition("://")
    return prefix + separator + settled(address)


def settled_or_free(address: str) -> str:
    """``address``, or one on the same host with a free port when it is taken."""
    host, port = settled_address = parse_address(settled(address))
    with contextlib.suppress(OSError), _tcp_socket(host) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return str(settled_address)
    return str(Address(host, free_port(host)))


def _tcp_socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)


def free_port(host: str) -> int:
    """A TCP port of ``host`` that is free now. Raises ConfigError when the host is not this machine."""
    try:
        with _tcp_socket(host) as probe:
            probe.bind((host, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}: {error.strerror or error}; use an address of this machine"
        ) from error
