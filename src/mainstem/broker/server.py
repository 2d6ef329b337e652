"""The log as a server: opens the data directory, listens, and stops cleanly.

Several brokers may run in one process, each on an event loop of its own or all on one; a stopped broker's directory can
be opened again by a new one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Final

from mainstem.broker.config import BrokerConfig
from mainstem.broker.connection import Connection
from mainstem.broker.housekeeping import keep_retention
from mainstem.broker.node import Node
from mainstem.clock import Clock, SystemClock
from mainstem.errors import AddressInUseError, ConfigError, MainstemError, StorageError
from mainstem.log.disk import Disk, OsDisk

_LOG: Final = logging.getLogger("mainstem.broker")
_CHECKPOINT_INTERVAL_S: Final = 1.0
_IDLE_CHECK_INTERVAL_S: Final = 1.0
_BACKLOG: Final = 1024


class Broker:
    """One broker. ``start`` and ``stop`` are called once each, on the same event loop."""

    def __init__(self, config: BrokerConfig, disk: Disk | None = None, clock: Clock | None = None) -> None:
        self.config = config
        self._disk = disk or OsDisk()
        self._clock = clock or SystemClock()
        self._node: Node | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._chores: list[asyncio.Task[None]] = []

    @property
    def node(self) -> Node:
        """The running node; for tests and metrics."""
        assert self._node is not None, "the broker is not running"
        return self._node

    async def start(self) -> tuple[str, int]:
        """Recover, listen, and return the address that clients are told.

        Raises AddressInUseError, ConfigError, DirectoryLockedError, StorageError; nothing is left open then.
        """
        self._node = Node.open(self.config, self._disk, self._clock)
        try:
            host, port = await self._listen(self._node)
        except MainstemError:
            await self._node.close()
            self._node = None
            raise
        self._node.advertised = self.config.advertised or (host, port)
        self._chores = [
            asyncio.create_task(self._write_checkpoints(self._node)),
            asyncio.create_task(self._close_idle_connections()),
            asyncio.create_task(keep_retention(self._node)),
        ]
        return self._node.advertised

    async def _listen(self, node: Node) -> tuple[str, int]:
        host, port = self.config.host, self.config.port
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(node, self._connections), host, port, backlog=_BACKLOG
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(
                    f"{host}:{port} is in use by another process; choose another port with --listen"
                ) from error
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        return host, int(self._server.sockets[0].getsockname()[1])

    async def _write_checkpoints(self, node: Node) -> None:
        """So that a start has little to recover. A disk that refuses is told of once, and asked again."""
        is_refused = False
        while True:
            await asyncio.sleep(_CHECKPOINT_INTERVAL_S)
            write = node.start_checkpoint()
            if write is None:
                continue
            try:
                await asyncio.to_thread(write.run)
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
            for connection in list(self._connections):
                connection.close_if_idle(now_s)

    async def stop(self) -> None:
        """Close the connections, make everything durable, and release the directory."""
        if self._server is not None:
            self._server.close()
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        for connection in list(self._connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
        if self._node is not None:
            await self._node.close()
            self._node = None
