"""Connections over TLS: a ``Dial`` and its ``Stream``, with the contract of ``transport``.

A certificate that is not trusted is an AuthenticationError: trying again does not help. A connection that ends during
the handshake is a NotConnectedError like one that is refused: so a log looks that stops or starts just then.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from mainstem.addresses import Address
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.connection.transport import Dial, NotConnectedError, Stream, connect
from mainstem.errors import AuthenticationError, ConfigError, LogUnavailableError
from mainstem.protocol.schema import Buffer

_JOIN_BYTES_MAX = 256 * 1024


class TlsStream(Stream):
    """A connection under TLS. Time-outs are Python's own: the kernel's would leave half a TLS record in the socket."""

    def __init__(self, sock: ssl.SSLSocket, address: Address) -> None:
        self._tls = sock
        super().__init__(sock, address)

    def send(self, buffers: Sequence[Buffer], deadline: Deadline) -> None:
        for part in _parts(buffers):
            try:
                self._tls.settimeout(max(deadline.left_s(), 0.001))
                self._tls.sendall(part)
            except OSError as error:
                raise self._failed(error, deadline) from error

    def receive_some(self, view: memoryview, deadline: Deadline) -> int:
        try:
            self._tls.settimeout(max(deadline.left_s(), 0.001))
            count = self._tls.recv_into(view)
        except OSError as error:
            raise self._failed(error, deadline) from error
        if count == 0:
            raise LogUnavailableError(f"the log at {self._address} closed the connection")
        return count

    def receive_into(self, view: memoryview, deadline: Deadline) -> None:
        received = 0
        while received < len(view):
            received += self.receive_some(view[received:], deadline)

    def abort(self) -> None:
        try:
            # Not the TLS object's own shutdown, which would remove the TLS state while another thread reads.
            socket.socket.shutdown(self._tls, socket.SHUT_RDWR)
        except OSError:
            return

    def _failed(self, error: OSError, deadline: Deadline) -> Exception:
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            return AuthenticationError(f"the log at {self._address} refused this client: {reason_of(error)}")
        return self._failure(error, deadline)


def _parts(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Small buffers joined, so that each makes few TLS records; large ones as they are."""
    if sum(map(len, buffers)) <= _JOIN_BYTES_MAX:
        return [b"".join(buffers)]
    return list(buffers)


def dial_tls(context: ssl.SSLContext) -> Dial:
    """How to connect under TLS."""

    def dial(address: Address, deadline: Deadline) -> Stream:
        sock = connect(address, deadline)
        try:
            sock.settimeout(max(deadline.left_s(), 0.001))
            return TlsStream(context.wrap_socket(sock, server_hostname=address.host), address)
        except ssl.SSLCertVerificationError as error:
            sock.close()
            raise AuthenticationError(
                f"the log at {address} cannot be trusted: {error.verify_message}; put the certificate of its "
                "authority into ssl.ca.location"
            ) from error
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError) as error:
            sock.close()
            raise NotConnectedError(
                f"the log at {address} closed the connection during the TLS handshake: it is restarting, or speaks no "
                "TLS at this address"
            ) from error
        except ssl.SSLError as error:
            sock.close()
            raise ConfigError(
                f"the log at {address} and this client cannot agree on TLS: {reason_of(error)}"
            ) from error
        except TimeoutError as error:
            sock.close()
            raise NotConnectedError(f"the log at {address} did not answer the TLS handshake in time") from error
        except OSError as error:
            sock.close()
            raise NotConnectedError(f"the log at {address} ended the TLS handshake: {reason_of(error)}") from error

    return dial


def reason_of(error: OSError) -> str:
    """TLS's own words for what went wrong, or the system's."""
    return str(getattr(error, "reason", None) or error.strerror or error).lower().replace("_", " ")
