"""The features that ApiVersions lists (KIP-584), derived from the table of APIs: a feature is on when it is served.

Clients adapt to them: ``transaction.version`` 2 tells a producer that it need not announce the partitions of a
transaction (KIP-890). Features cannot be switched off here: every node offers all that it serves.
Deliberate: ``metadata.version``, ``kraft.version`` and ``eligible.leader.replicas.version`` are about how several nodes
of Apache Kafka work together, and are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from mainstem.protocol.apis import ApiKey
from mainstem.protocol.schema import VersionRange


class ServedApi(Protocol):
    """The part of an API that clients see; ``broker.api.Api`` describes each field."""

    @property
    def key(self) -> ApiKey: ...
    @property
    def versions(self) -> VersionRange: ...
    @property
    def advertised(self) -> VersionRange | None: ...


class Feature(NamedTuple):
    """A feature that is on: its range of levels, and its current level."""

    name: str
    first: int
    last: int
    level: int


class _Rule(NamedTuple):
    """A rule: the feature is at ``level`` when ``api`` is served from ``version`` on."""

    name: str
    level: int
    api: ApiKey
    version: int


_RULES: Final = (
    _Rule("group.version", 1, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),
    _Rule("share.version", 1, ApiKey.SHARE_FETCH, 1),
    _Rule("streams.version", 1, ApiKey.STREAMS_GROUP_HEARTBEAT, 0),
    _Rule("transaction.version", 2, ApiKey.END_TXN, 5),
)


def features(apis: Mapping[int, ServedApi]) -> list[Feature]:
    """Return the features of a node that serves ``apis``."""
    return [
        Feature(rule.name, 0, rule.level, rule.level)
        for rule in _RULES
        if rule.api in apis and rule.version <= apis[rule.api].versions.last
    ]
