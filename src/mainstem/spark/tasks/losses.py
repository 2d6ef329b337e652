"""Lost offsets, as a reader judges them: only by where a partition's log starts and ends, and by the topic's id.

A gap inside the log is not a loss: compaction and transactions leave gaps. Offsets before the log start offset were
removed; the topic's configs say which rule can have removed them. If a topic was deleted and created again, all unread
offsets are lost; if a log is shorter than before, its end is lost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.topics import topic_configs
from mainstem.errors import MainstemError, OffsetOutOfRangeError
from mainstem.model import Position, TopicPartition, topic_was_recreated
from mainstem.pipelines.losses import Loss, record_losses
from mainstem.spark.clients import opened
from mainstem.spark.options.options import LogOptions

RECREATED = "the topic was deleted and recreated"
DELETED = "the topic was deleted"
_RULES = ("cleanup.policy", "retention.ms", "retention.bytes")
_UNLIMITED = ("-1", None, "")


def rule_of(client: WireClient, topic: str) -> str:
    """The rule that can have removed the oldest records of a topic, with its configs' values."""
    try:
        configs = topic_configs(client, topic, _RULES)
    except MainstemError as error:
        return f"by retention or a delete-records request; the topic's configs cannot be read: {error}"
    deletes = "delete" in (configs.get("cleanup.policy") or "delete")
    limits = [f"{name}={configs.get(name)}" for name in _RULES[1:] if configs.get(name) not in _UNLIMITED]
    if not deletes or not limits:
        return "by a delete-records request: no retention applies to the topic"
    return f"by {' or '.join(limits)}, or a delete-records request"


@dataclass(frozen=True, slots=True)
class Resumed:
    """A partition whose reading goes on at another offset than wanted: the loss, the new start, and the end."""

    loss: Loss
    start: int
    end: int


def resume(
    client: WireClient,
    reader: str,
    topic_ids: Mapping[str, str],
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> list[Resumed]:
    """Where to go on in the partitions whose wanted offset is not in the log; the others are left out.

    If the log starts after the offset, the offsets up to its start are lost, and reading goes on at the start. If the
    log ends before the offset, its end was cut off (an unclean leader election does that), and reading goes on at the
    end. ``topic_ids`` are the topics' ids.
    """
    starts = client.list_offsets(wanted, EARLIEST)
    ends = client.list_offsets(wanted, LATEST, isolation)
    rules: dict[str, str] = {}
    found = []
    for tp, offset in wanted.items():
        if starts[tp] > offset:
            if tp.topic not in rules:
                rules[tp.topic] = rule_of(client, tp.topic)
            lost = noticed(reader, tp, offset, starts[tp], f"removed {rules[tp.topic]}", topic_ids)
            found.append(Resumed(lost, starts[tp], max(starts[tp], ends[tp])))
        elif offset > ends[tp]:
            lost = noticed(reader, tp, ends[tp], offset, f"the log was cut: it ends at {ends[tp]} now", topic_ids)
            found.append(Resumed(lost, ends[tp], ends[tp]))
    return found


def recreation_losses(reader: str, position: Position, then: Mapping[str, str], now: Mapping[str, str]) -> list[Loss]:
    """The losses of topics that were deleted since ``then``, recreated or not: all unread offsets."""
    losses = []
    for tp, offset in position.items():
        former_id = then.get(tp.topic, "")
        if tp.topic not in now:
            losses.append(noticed(reader, tp, offset, None, DELETED, then))
        elif topic_was_recreated(former_id, now[tp.topic]):
            said = f"{RECREATED}: its id was {former_id}, it is {now[tp.topic]} now"
            losses.append(noticed(reader, tp, offset, None, said, then))
    return losses


def noticed(
    reader: str, tp: TopicPartition, start: int, end: int | None, rule: str, topic_ids: Mapping[str, str]
) -> Loss:
    """A loss that is noticed now."""
    return Loss(reader, tp, start, end, rule, topic_ids.get(tp.topic, ""), time.time_ns() // 1_000_000)


def lost_error(losses: Sequence[Loss], advice: str) -> OffsetOutOfRangeError:
    """The error that names all of them."""
    return OffsetOutOfRangeError(f"records were removed before they were read: {'; '.join(map(str, losses))}. {advice}")


def note(log: LogOptions | None, losses: Sequence[Loss]) -> None:
    """Print the losses to standard error and record them in the progress topic. The read continues even if that
    fails.
    """
    for each in losses:
        _say(f"{each}; going on without them")
    if log is None:
        return
    try:
        with opened(log) as connected:
            record_losses(connected, losses)
    except MainstemError as error:
        _say(f"the loss cannot be recorded: {error}")


def _say(text: str) -> None:
    print(f"mainstem: {text}", file=sys.stderr)  # noqa: T201 - the only voice of a process of Spark's
