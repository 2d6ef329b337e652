"""The declaration of an API, once, at the end of its handler's file: the message, the handler, the rights, the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from mainstem.broker.call import Answer, Call
from mainstem.broker.slices import Slices
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.compiler import MAX_ELEMENTS
from mainstem.protocol.schema import Message, VersionRange

if TYPE_CHECKING:
    from mainstem.broker.access.guards import Guard
    from mainstem.broker.node import Node
    from mainstem.broker.storage.topics import Topics


_ELEMENTS_MAX: Final = 100_000


Handler: TypeAlias = "Callable[[Node, Call], Answer | Awaitable[Answer]]"


class Mutations(NamedTuple):
    """The arrays of a request whose items create or delete partitions, for the quota on such changes.

    ``answered``: the array of the response that gets the refused items. Versions before ``strict_from`` wait instead.
    ``partitions``: how many partitions an item creates or deletes.
    """

    asked: tuple[str, ...]
    answered: str
    strict_from: int
    partitions: Callable[[Topics, Any], int]


@dataclass(frozen=True, slots=True)
class Api:
    """One API as it is served. Its number and its versions are those that ``request`` declares.

    ``guard`` requires the sender's rights, on a node with an authorizer; a guard that ``describes_permissions`` also
    writes into the answer what the sender may do, with or without an authorizer. Requests that change state
    (``changes_state``) are logged at INFO, others at DEBUG. A sender may use an API ``before_authentication``; quotas
    do not count these. ``mutations``: what counts for the quota on changes of partitions.

    ``advertised`` are the versions that ApiVersions lists, where they differ from the served versions. Requests of a
    ``pipelined`` API begin while earlier ones on the same connection still wait for their responses; the responses
    are still sent in the order of the requests.

    ``slices``: the array whose items are answered one by one; a long request is then served in slices. A request of an
    API without ``slices`` is short: it may hold ``_ELEMENTS_MAX`` array elements.

    ``has_long_answer``: a short request may have a long answer, which is encoded in a thread.
    """

    request: type[Message]
    handle: Handler
    guard: Guard
    changes_state: bool = False
    before_authentication: bool = False
    mutations: Mutations | None = None
    describes_permissions: bool = False
    advertised: VersionRange | None = None
    pipelined: bool = False
    slices: Slices | None = None
    has_long_answer: bool = False
    key: ApiKey = field(init=False)
    versions: VersionRange = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", ApiKey(self.request.__api_key__))
        object.__setattr__(self, "versions", self.request.__versions__)

    @property
    def elements_max(self) -> int:
        """Return how many array elements a request may hold."""
        return _ELEMENTS_MAX if self.slices is None else MAX_ELEMENTS
