"""Whose quota it is, and which of several counts: Kafka's entities and their order. Pure data.

An entity is a user, a client id, or both, each by its name or as the default of all that have none of their own. For
one request the most special one that has the quota in question counts; a default's limit holds for each user or client
by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mainstem.broker.error_codes import refusal
from mainstem.protocol.errors import ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
TYPES: Final = (USER, CLIENT_ID)

PRODUCER_BYTES: Final = "producer_byte_rate"
CONSUMER_BYTES: Final = "consumer_byte_rate"
REQUEST_PERCENT: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
KEYS: Final = (PRODUCER_BYTES, CONSUMER_BYTES, REQUEST_PERCENT, MUTATIONS)
_WHOLE: Final = (PRODUCER_BYTES, CONSUMER_BYTES)


class Part(NamedTuple):
    """One side of an entity. ``name`` None is the default of all that have no quota of their own."""

    type: str
    name: str | None


class Entity(NamedTuple):
    """A user, a client id, or both; None for a side that it has not."""

    user: Part | None = None
    client: Part | None = None

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Entity:
        """The entity of these parts. Raises RemoteError for a type that is not known, and for none."""
        unknown = [kind for kind in parts if kind not in TYPES]
        if unknown:
            raise refusal(
                ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas for entities of type {unknown[0]!r} here"
            )
        if not parts or "" in parts.values():
            raise refusal(ErrorCode.INVALID_REQUEST, "an entity names a user, a client id, or both")
        user = Part(USER, parts[USER]) if USER in parts else None
        return cls(user, Part(CLIENT_ID, parts[CLIENT_ID]) if CLIENT_ID in parts else None)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The sides that it has."""
        return tuple(part for part in self if part is not None)


def candidates(user: str, client_id: str) -> Iterator[Entity]:
    """The entities whose quota a request may fall under, the most special first."""
    for user_part in (Part(USER, user), Part(USER, None)):
        yield Entity(user_part, Part(CLIENT_ID, client_id))
        yield Entity(user_part, Part(CLIENT_ID, None))
        yield Entity(user_part)
    yield Entity(None, Part(CLIENT_ID, client_id))
    yield Entity(None, Part(CLIENT_ID, None))


def check_limit(key: str, value: float) -> None:
    """Raises RemoteError (INVALID_REQUEST) for a quota that there is not, or a limit that cannot be."""
    if key not in KEYS:
        raise refusal(ErrorCode.INVALID_REQUEST, f"there is no quota {key!r}; there are {', '.join(KEYS)}")
    if not 0 < value < float("inf"):
        raise refusal(ErrorCode.INVALID_REQUEST, f"{key}={value}: a limit is greater than 0")
    if key in _WHOLE and value != int(value):
        raise refusal(ErrorCode.INVALID_REQUEST, f"{key}={value}: a limit in bytes is a whole number")
