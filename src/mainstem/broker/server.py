"""The log as a server: opens the data directory, listens, and stops cleanly.

Several brokers may run in one process, each on an event loop of its own or all on one; a stopped broker's directory can
be opened again by a new one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from mainstem.broker.apis import APIS
from mainstem.broker.chores import Chores, run_whole
from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.dispatch import Dispatcher
from mainstem.broker.network.connection import Connection
from mainstem.broker.network.request_server import RequestServer
from mainstem.broker.network.unauthenticated import TlsServer
from mainstem.broker.node import Node
from mainstem.broker.security.listeners import Listener
from mainstem.broker.storage.housekeeping import keep_offsets, keep_retention
from mainstem.clock import Clock, SystemClock
from mainstem.errors import AddressInUseError, ConfigError, MainstemError, StorageError
from mainstem.log.files.disk import Disk, OsDisk

_LOG: Final = logging.getLogger("mainstem.broker")
_CHECKPOINT_INTERVAL_S: Final = 1.0
_IDLE_CHECK_INTERVAL_S: Final = 1.0
_BACKLOG: Final = 1024
_TURNS_OF_AN_ACCEPT: Final = 3


class Broker:
    """One broker. ``start`` and ``stop`` are called once each, on the same event loop."""

    def __init__(self, config: BrokerConfig, disk: Disk | None = None, clock: Clock | None = None) -> None:
        self.config = config
        self._disk = disk or OsDisk()
        self._clock = clock or SystemClock()
        self._node: Node | None = None
        self.listeners: list[Listener] = []
        self._servers: list[asyncio.Server] = []
        self._tls_servers: list[TlsServer] = []
        self.connections: set[Connection] = set()
        self._chores = Chores(Counter())

    @property
    def node(self) -> Node:
        """The running node; for tests and metrics."""
        assert self._node is not None, "the broker is not running"
        return self._node

    async def start(self) -> tuple[str, int]:
        """Recover, listen, and return the address that clients get.

        Raises AddressInUseError, ConfigError, DirectoryLockedError, StorageError; then nothing stays open.
        """
        self._node = Node.open(self.config, self._disk, self._clock, APIS)
        try:
            self.listeners = [await self._listen(self._node, each) for each in self.config.all_listeners]
        except MainstemError:
            self._close_servers()
            await self._node.close()
            self._node = None
            raise
        node = self._node
        self._chores = Chores(node.meters.chore_failures)
        self._chores.start("checkpoints", lambda: self._write_checkpoints(node))
        self._chores.start("connections", self._close_idle_connections)
        self._chores.start("retention", lambda: keep_retention(node.config, node.clock, node.log, node.remote))
        self._chores.start("offset expiry", lambda: keep_offsets(node.config, node.clock, node.groups.expire_offsets))
        self._chores.start("client metrics", node.telemetry.keep)
        self._chores.start("compaction", node.compaction.run)
        self._chores.start("trees", node.trees.run)
        self._chores.start("remote segments", node.remote.keep)
        first = self.listeners[0]
        return first.advertised or (first.host, first.port)

    async def _listen(self, node: Node, listener: Listener) -> Listener:
        """Listen on the address; return the listener with its real port. Raises AddressInUseError, ConfigError."""
        context = node.security.context(listener)
        bound, serve = listener, partial(RequestServer, node, Dispatcher(node))
        loop = asyncio.get_running_loop()

        def made() -> Connection:
            return Connection(node.network, node.security, node.meters, serve, self.connections, bound)

        try:
            if context is None:
                server = await loop.create_server(made, listener.host, listener.port, backlog=_BACKLOG)
                self._servers.append(server)
                port = int(server.sockets[0].getsockname()[1])
            else:
                timeout_s = node.security.timeout_s
                tls = TlsServer(context, timeout_s, node.network.unauthenticated, made, lambda: self._has_room(node))
                port = await tls.listen(listener.host, listener.port, _BACKLOG)
                self._tls_servers.append(tls)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(
                    f"{listener} is in use by another process; choose another port with --listen"
                ) from error
            is_lookup = isinstance(error, socket.gaierror)
            reason = os.strerror(error.errno) if error.errno and not is_lookup else error.strerror or str(error)
            raise ConfigError(
                f"cannot listen on {listener}: {reason}; use an address of this machine and a port above 1023"
            ) from error
        bound = replace(listener, port=port)
        return bound

    def _has_room(self, node: Node) -> bool:
        """Whether one more socket may start a handshake; a refusal is logged and counted."""
        count = len(self.connections) + sum(map(len, self._tls_servers))
        if count < node.network.connections_max:
            return True
        _LOG.warning("connection refused: %d are open", count)
        node.meters.connections_refused += 1
        return False

    async def _write_checkpoints(self, node: Node) -> None:
        """Write checkpoints, so that the next start has little to recover. A disk error is logged once and retried."""
        is_refused = False
        while True:
            await asyncio.sleep(_CHECKPOINT_INTERVAL_S)
            write = node.start_checkpoint()
            if write is None:
                continue
            try:
                await run_whole(write.run)
                is_refused = False
            except StorageError as error:
                if not is_refused:
                    _LOG.warning("checkpoints are not written: %s", error)
                is_refused = True

    async def _close_idle_connections(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_IDLE_CHECK_INTERVAL_S)
            now_s = loop.time()
            self.node.security.renew_certificates()
            for connection in list(self.connections):
                connection.close_if_idle(now_s)
            self.node.network.unread.check(now_s)

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        for tls_server in self._tls_servers:
            tls_server.close()
        self._tls_servers.clear()

    async def _finish_accepts(self) -> None:
        """Accept nothing more, and wait until the sockets that were accepted are connections.

        For asyncio's own loop, which forgets them, open, when their server closes. uvloop makes them at once.
        """
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listening in (each for server in self._servers for each in server.sockets):
                loop.remove_reader(listening.fileno())
            for _ in range(_TURNS_OF_AN_ACCEPT):
                await asyncio.sleep(0)

    async def stop(self) -> None:
        """Close the connections, make everything durable, and release the directory."""
        await self._finish_accepts()
        self._close_servers()
        await self._chores.stop()
        for connection in list(self.connections):
            connection.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        if self._node is not None:
            await self._node.close()
            self._node = None
