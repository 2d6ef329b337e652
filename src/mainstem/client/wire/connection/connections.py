"""The open connections of one client, by address: opened when first needed, dropped when they break.

Owned by one thread; ``abort`` may be called from any.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.addresses import Address
from mainstem.client.wire.connection.connection import BrokerConnection, ConnectionOptions
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.connection.transport import NotConnectedError
from mainstem.errors import LogUnavailableError


class Connections:
    """At most one connection to each address."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._by_address: dict[Address, BrokerConnection] = {}
        self._opening: BrokerConnection | None = None
        self._aborted = False

    def to(self, address: Address, deadline: Deadline) -> BrokerConnection:
        """The connection to ``address``, opened if there is none. Raises NotConnectedError."""
        connection = self._by_address.get(address)
        if connection is None or not connection.is_open:
            self._check_open()
            connection = self._open(address, deadline)
            self._by_address[address] = connection
            self._check_open()
        return connection

    def _open(self, address: Address, deadline: Deadline) -> BrokerConnection:
        try:
            return BrokerConnection.open(address, self._options, deadline, self._note_opening)
        except NotConnectedError:
            raise
        except LogUnavailableError as error:  # it broke before a request could be sent
            raise NotConnectedError(str(error)) from error
        finally:
            self._opening = None

    def _note_opening(self, connection: BrokerConnection) -> None:
        self._opening = connection
        self._check_open()

    def to_any(self, addresses: Iterable[Address], deadline: Deadline) -> BrokerConnection:
        """An open connection if there is one, or else one to the first of ``addresses`` that answers."""
        for connection in self._by_address.values():
            if connection.is_open:
                return connection
        failures = []
        for address in dict.fromkeys(addresses):
            try:
                return self.to(address, deadline)
            except LogUnavailableError as error:
                failures.append(str(error))
        raise NotConnectedError("; ".join(failures))

    def abort(self) -> None:
        """Break all connections and open no other; from any thread."""
        self._aborted = True
        opening = self._opening
        for connection in [*self._by_address.values(), *([opening] if opening is not None else [])]:
            connection.abort()

    def close(self) -> None:
        for connection in self._by_address.values():
            connection.close()
        self._by_address.clear()

    def _check_open(self) -> None:
        if self._aborted:
            self.close()
            raise NotConnectedError("the client is closed")
