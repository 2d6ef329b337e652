"""The two logs that a mirror connects, and which topics are meant. Owned by one thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.client.wire.cluster.topics import topic_configs
from mainstem.errors import InputError, MirrorRefusedError, RemoteError
from mainstem.model import MIRROR_OF
from mainstem.protocol.messages.mirror_append import MirrorAppendRequest
from mainstem.protocol.schema import ZERO_UUID

PROMOTIONS_TOPIC: Final = "__mainstem_promotions"
_NODES_OWN: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__mainstem_metadata", PROMOTIONS_TOPIC}
)
ALL_TOPICS: Final = ".*"


class Link:
    """Source and target, with the topics whose whole name matches a pattern. A context manager."""

    def __init__(self, source: WireClient, target: WireClient, pattern: str = ALL_TOPICS) -> None:
        """Connects to nothing yet. Raises InputError for a pattern that RE2 does not take."""
        self.source = source
        self.target = target
        self._only: frozenset[str] | None = None
        try:
            self._pattern = re2.compile(pattern)
        except re2.error as error:
            raise InputError(f"--topics {pattern!r} is not a regular expression that RE2 takes: {error}") from error

    def require_logs(self) -> None:
        """Reach both logs. Raises LogUnavailableError, MirrorRefusedError for a target that cannot keep offsets."""
        self.source.metadata([])
        require_mainstem(self.target)
        if self.source_id == self.target_id:
            raise MirrorRefusedError(
                f"{self.source.bootstrap} and {self.target.bootstrap} are the same log: give --to another one"
            )

    @property
    def source_id(self) -> str:
        """The source's cluster id."""
        return self.source.cluster.cluster_id or ""

    @property
    def target_id(self) -> str:
        """The target's cluster id."""
        return self.target.cluster.cluster_id or ""

    def restrict(self, names: Iterable[str]) -> None:
        """Mean these topics alone, of those that match."""
        self._only = frozenset(names)

    def selects(self, topic: TopicMetadata) -> bool:
        """Whether the topic is meant: not one that a node keeps for itself."""
        is_out = topic.is_internal or topic.name in _NODES_OWN
        if self._only is not None and topic.name not in self._only:
            is_out = True
        return not is_out and self._pattern.fullmatch(topic.name) is not None

    def source_topics(self) -> dict[str, TopicMetadata]:
        """The topics of the source that are meant."""
        return {name: topic for name, topic in self.source.metadata().items() if self.selects(topic)}

    def target_topics(self) -> dict[str, TopicMetadata]:
        """The topics of the target that are meant."""
        return {name: topic for name, topic in self.target.metadata().items() if self.selects(topic)}

    def close(self) -> None:
        """Close both clients; from any thread."""
        self.source.close()
        self.target.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_mainstem(client: WireClient) -> None:
    """Raises MirrorRefusedError where batches cannot be appended at given offsets, LogUnavailableError."""
    client.metadata([])
    if not is_mainstem(client):
        raise MirrorRefusedError(
            f"{client.bootstrap} cannot be the target: only a Mainstem log takes records at the offsets of another log "
            "(Apache Kafka gives them offsets of its own)"
        )


def is_mainstem(client: WireClient) -> bool:
    """Whether the log takes batches at given offsets."""
    try:
        client.version_of(MirrorAppendRequest)
    except RemoteError:
        return False
    return True


def mirror_of(client: WireClient, topic: str) -> str:
    """Of what a topic is the copy; empty for one that is not."""
    return topic_configs(client, topic, [MIRROR_OF]).get(MIRROR_OF) or ""


def mirror_text(cluster_id: str, topic: TopicMetadata) -> str:
    """The config of a copy of ``topic``."""
    import base64

    return f"{cluster_id}/{base64.urlsafe_b64encode((topic.topic_id or ZERO_UUID).bytes).decode().rstrip('=')}"
