"""Topics at the target, made and kept as at the source: partitions, configs, ids. Functions over a ``Link``.

A topic that is missing is created as a mirror. One that is there must be the mirror of this source's topic, or have its
id and its content: then it becomes the mirror. Any other topic of the name is left alone, and refused. Deletions at the
source are not followed: the copy is there for what goes wrong at the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mainstem.client.wire.cluster.cluster import LATEST
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.client.wire.cluster.topics import (
    create_topic,
    set_partition_count,
    set_topic_configs,
    topic_config_entries,
    topic_configs,
)
from mainstem.errors import ConfigError, MirrorRefusedError, TopicExistsError
from mainstem.mirror.lineage import Divergence, divergence, refused
from mainstem.mirror.link import Link, mirror_of, mirror_text
from mainstem.mirror.promotion_record import promotions
from mainstem.model import MIRROR_OF, TopicPartition
from mainstem.protocol.schema import ZERO_UUID

_OF_EACH_NODE: Final = frozenset(
    {
        MIRROR_OF,
        "flush",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "preallocate",
        "unclean.leader.election.enable",
    }
)
"""Configs that say nothing of a topic's records."""
_OF_EACH_NODE_PREFIXES: Final = ("remote.", "local.retention.")


def ensure_copy(link: Link, topic: TopicMetadata, note: Callable[[str], None], *, is_closed: bool = False) -> None:
    """Let the target have ``topic`` as a mirror, with its partitions and configs, and holding nothing else.

    ``is_closed``: a promotion may have closed the source.
    Raises MirrorRefusedError, AuthorizationError, LogUnavailableError.
    """
    wanted = mirror_text(link.source_id, topic)
    there = link.target.metadata([topic.name]).get(topic.name)
    marked = "" if there is None else mirror_of(link.target, topic.name)
    if not is_closed:
        _refuse_circle(link, topic, is_interrupted=marked == wanted)
    if there is None:
        there = _create(link, topic, wanted)
    elif marked != wanted:
        _adopt(link, topic, there, marked, wanted)
    _keep_partitions(link, topic, there)
    keep_configs(link, topic.name, note)
    _refuse_different(link, topic)


def keep_copy(link: Link, topic: TopicMetadata, note: Callable[[str], None], *, has_new_leader: bool) -> None:
    """Let the target's topic, which is a mirror, follow the partitions and configs of the source.

    ``has_new_leader``: the source failed meanwhile, and may have lost what the target holds.
    Raises MirrorRefusedError, also when it is a mirror no longer.
    """
    there = link.target.metadata([topic.name]).get(topic.name)
    if there is None or mirror_of(link.target, topic.name) != mirror_text(link.source_id, topic):
        what = "deleted" if there is None else "promoted"
        raise MirrorRefusedError(
            f"topic {topic.name!r} was {what} at {link.target.bootstrap}, or is another one at the source"
        )
    _keep_partitions(link, topic, there)
    keep_configs(link, topic.name, note)
    if has_new_leader:
        _refuse_different(link, topic)


def _refuse_different(link: Link, topic: TopicMetadata) -> None:
    different = divergences(link, topic)
    if different:
        raise refused(different, link.source, link.target)


def _refuse_circle(link: Link, topic: TopicMetadata, *, is_interrupted: bool) -> None:
    of = topic_configs(link.source, topic.name).get(MIRROR_OF) or ""
    if of.partition("/")[0] == link.target_id:
        advice = (
            "its promotion was interrupted: run mainstem promote again" if is_interrupted else "mirror the other way"
        )
        raise MirrorRefusedError(
            f"topic {topic.name!r} at {link.source.bootstrap} is itself the copy of {link.target.bootstrap}: {advice}"
        )


def _create(link: Link, topic: TopicMetadata, wanted: str) -> TopicMetadata:
    try:
        return create_topic(link.target, topic.name, partitions=len(topic.partitions), configs={MIRROR_OF: wanted})
    except TopicExistsError:  # another mirror was faster
        return link.target.metadata([topic.name], wait=True)[topic.name]


def _adopt(link: Link, topic: TopicMetadata, there: TopicMetadata, marked: str, wanted: str) -> None:
    """Make a mirror of a topic that was one, or was the source itself: same id, and no record that is not here."""
    name, at = topic.name, link.target.bootstrap
    if marked:
        raise MirrorRefusedError(
            f"topic {name!r} at {at} is the copy of another topic ({marked}): it was deleted and recreated at the "
            "source, or has another source; delete it there, or leave it out with --topics"
        )
    if topic.topic_id == ZERO_UUID or there.topic_id != topic.topic_id:
        raise MirrorRefusedError(
            f"topic {name!r} at {at} was made by others, not by a mirror: delete it there, or leave it out with "
            "--topics"
        )
    if _was_promoted(link, name):
        raise MirrorRefusedError(
            f"topic {name!r} was promoted at {at}, and others may write it: mirror the other way, or delete it there "
            "to copy it again"
        )
    set_topic_configs(link.target, name, {MIRROR_OF: wanted})  # closed first, so that nothing changes while we look
    try:
        _refuse_different(link, topic)
    except BaseException:
        set_topic_configs(link.target, name, {}, reset=[MIRROR_OF])
        raise


def _was_promoted(link: Link, name: str) -> bool:
    """Whether the target's topic is the one that counts: it was promoted, and the source's was not promoted since."""
    here, there = promotions(link.target).get(link.source_id), promotions(link.source).get(link.target_id)
    here_ms = None if here is None else here.time_of(name)
    there_ms = None if there is None else there.time_of(name)
    return here_ms is not None and (there_ms is None or there_ms < here_ms)


def _keep_partitions(link: Link, topic: TopicMetadata, there: TopicMetadata) -> None:
    count, now = len(topic.partitions), len(there.partitions)
    if now > count:
        raise MirrorRefusedError(
            f"topic {topic.name!r} has {now} partitions at {link.target.bootstrap}, but {count} at the source: delete "
            "it at the target, and it is copied again"
        )
    if now < count:
        set_partition_count(link.target, topic.name, count)


def divergences(link: Link, topic: TopicMetadata) -> list[Divergence]:
    """Which offsets of a topic only the target holds."""
    there = link.target.metadata([topic.name], wait=True)[topic.name]
    tps = [TopicPartition(topic.name, number) for number in topic.partitions if number in there.partitions]
    source_ends, target_ends = link.source.list_offsets(tps, LATEST), link.target.list_offsets(tps, LATEST)
    found = (divergence(link.source, link.target, tp, source_ends[tp], target_ends[tp]) for tp in tps)
    return [each for each in found if each is not None]


def keep_configs(link: Link, name: str, note: Callable[[str], None]) -> None:
    """Give the target's topic the values that hold at the source, also those that are its brokers' defaults."""
    there = topic_configs(link.target, name)
    for entry in topic_config_entries(link.source, name):
        is_copied = entry.name in there and entry.name not in _OF_EACH_NODE
        if not is_copied or entry.name.startswith(_OF_EACH_NODE_PREFIXES) or entry.is_sensitive:
            continue
        if entry.value is None or entry.value == there[entry.name]:
            continue
        try:
            set_topic_configs(link.target, name, {entry.name: entry.value})
        except ConfigError as error:
            note(f"topic {name}: {error}; the target keeps {entry.name}={there[entry.name]}")
