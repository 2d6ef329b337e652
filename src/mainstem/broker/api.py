"""The declaration of an API, once, at the end of its handler's file: the message, the handler, the rights, the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from mainstem.broker.security.principal import Principal
from mainstem.broker.security.session import NO_SESSION, Session
from mainstem.broker.slices import Slices
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.compiler import MAX_ELEMENTS
from mainstem.protocol.schema import Message, VersionRange

if TYPE_CHECKING:
    from mainstem.broker.access.guards import Guard
    from mainstem.broker.node import Node


_ELEMENTS_MAX: Final = 100_000


def _hold_nothing() -> Callable[[], None]:
    return lambda: None


class Call(NamedTuple):
    """A request with the session of its sender. ``body`` is the API's request class.

    ``client_host`` is the sender's address behind a ``/``, as Kafka shows it. ``hold`` delays later requests on the
    same connection until the function that it returns is called.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    body: Any
    session: Session = NO_SESSION
    hold: Callable[[], Callable[[], None]] = _hold_nothing

    @property
    def principal(self) -> Principal:
        """The sender's principal."""
        return self.session.principal

    @property
    def advertised(self) -> tuple[str, int]:
        """The address of this node that the sender gets: that of the listener by which it came."""
        return self.session.advertised


Answer: TypeAlias = Message | None
"""A response; None when the protocol sends none (Produce with acks=0)."""
Handler: TypeAlias = "Callable[[Node, Call], Answer | Awaitable[Answer]]"


@dataclass(frozen=True, slots=True)
class Api:
    """One API as it is served. Its number and its versions are those that ``request`` declares.

    ``guard`` requires the sender's rights, on a node with an authorizer; a guard that ``describes_permissions`` also
    writes into the answer what the sender may do, with or without an authorizer. Requests that change state
    (``changes_state``) are logged at INFO, others at DEBUG.

    ``advertised`` are the versions that ApiVersions lists, where they differ from the served versions. Requests of a
    ``pipelined`` API begin while earlier ones on the same connection still wait for their responses; the responses
    are still sent in the order of the requests.

    ``slices``: the array whose items are answered one by one; a long request is then served in slices. A request of an
    API without ``slices`` is short: it may hold ``_ELEMENTS_MAX`` array elements.
    """

    request: type[Message]
    handle: Handler
    guard: Guard
    changes_state: bool = False
    describes_permissions: bool = False
    advertised: VersionRange | None = None
    pipelined: bool = False
    slices: Slices | None = None
    key: ApiKey = field(init=False)
    versions: VersionRange = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", ApiKey(self.request.__api_key__))
        object.__setattr__(self, "versions", self.request.__versions__)

    @property
    def elements_max(self) -> int:
        """Return how many array elements a request may hold."""
        return _ELEMENTS_MAX if self.slices is None else MAX_ELEMENTS
