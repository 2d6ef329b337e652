"""The words and numbers of ACLs, as Kafka has them, and how people write them.

``Read`` and ``read`` are one word, and so are ``DescribeConfigs``, ``describe-configs`` and ``DESCRIBE_CONFIGS``. A
resource is written ``topic:NAME``, ``group:NAME``, ``transactional-id:NAME`` or ``cluster``. Pure functions.
"""

from __future__ import annotations

import enum
from typing import Final, TypeVar

from mainstem.errors import InputError

WILDCARD: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(enum.IntEnum):
    """The types of resources that ACLs protect."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How a binding names its resource."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(enum.IntEnum):
    """The operations on resources."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(enum.IntEnum):
    """The effect of a binding: deny wins over allow."""

    ANY = 1
    DENY = 2
    ALLOW = 3


Word = TypeVar("Word", bound=enum.IntEnum)
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def parse_word(kind: type[Word], word: str) -> Word:
    """The value that a word names; any case, with or without hyphens and underscores. Raises InputError."""
    wanted = word.replace("_", "").replace("-", "").lower()
    for value in kind:
        if value.name.replace("_", "").lower() == wanted and value.name not in ("ANY", "MATCH"):
            return value
    known = ", ".join(camel(value) for value in kind if value.name not in ("ANY", "MATCH"))
    raise InputError(f"unknown word {word[:100]!r}: use one of {known}")


def parse_resource(text: str) -> tuple[ResourceType, str]:
    """A resource's type and name: ``topic:orders``. Raises InputError."""
    kind, colon, name = text.partition(":")
    if text == "cluster":
        return ResourceType.CLUSTER, CLUSTER_NAME
    found = _RESOURCES.get(kind)
    if found is None or not colon or not name:
        raise InputError(f"{text[:300]!r}: give topic:NAME, group:NAME, transactional-id:NAME or cluster")
    return found, name


def camel(value: enum.IntEnum) -> str:
    """The word of a value as Kafka writes it: ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in value.name.split("_"))
