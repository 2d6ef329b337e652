"""Spark's own checkpoint files, as far as positions are concerned: the offsets of a micro-batch.

``<checkpoint>/offsets/<batch id>`` is written before the micro-batch runs: a line with the format's version, a line of
metadata, then one line for each source, in the order of the query's plan (``-`` for a source without offsets yet).
Every source of ours writes ``StreamOffsets``; another source's line is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mainstem.durable_files import remove_directory
from mainstem.errors import ConfigError, PositionFormatError, StorageError
from mainstem.model import Position, TopicPartition
from mainstem.spark.checkpoints.offsets import StreamOffsets

_VERSION = "v1"
_GONE = "__gone-"  # no pipeline has a name that begins so


def read_offsets(checkpoint: str, batch_id: int) -> StreamOffsets:
    """The end offsets of a micro-batch, of all sources together. Raises StorageError when they cannot be read.

    A topic that several sources stream has been read as far as the one that is the furthest behind.
    """
    sources = _sources(checkpoint, batch_id)
    return StreamOffsets(
        _furthest_behind([source.position for source in sources]),
        {topic: topic_id for source in sources for topic, topic_id in source.topic_ids.items()},
        Position.join(source.tables for source in sources),
    )


def streams_ours(checkpoint: str, batch_id: int) -> bool:
    """Whether one of the micro-batch's sources is ours, also when it has no partition yet. Raises StorageError."""
    return bool(_sources(checkpoint, batch_id))


def maybe_offsets(checkpoint: str, batch_id: int) -> StreamOffsets | None:
    """The same; None where the checkpoint is not on a local or mounted file system.

    A path without a scheme is one of Spark's default file system, which need not be this one.
    """
    if urlsplit(checkpoint).scheme not in ("", "file") or not (local_path(checkpoint) / "offsets").is_dir():
        return None
    return read_offsets(checkpoint, batch_id)


def watermark_ms(checkpoint: str, batch_id: int) -> int | None:
    """The watermark of a micro-batch, in milliseconds; None where its offsets are not at hand, or say none."""
    path = local_path(checkpoint) / "offsets" / str(batch_id)
    try:
        found = json.loads(path.read_text().splitlines()[1])["batchWatermarkMs"]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, int) else None


def _furthest_behind(positions: Sequence[Position]) -> Position:
    topics = frozenset().union(*(position.topics for position in positions))
    lowest: dict[TopicPartition, int] = {}
    for topic in topics:
        ends = [position.restrict([topic]) for position in positions if topic in position.topics]
        for tp in set(ends[0]).intersection(*ends):
            lowest[tp] = min(end[tp] for end in ends)
    return Position(lowest)


def last_committed(checkpoint: str) -> int | None:
    """The id of the last micro-batch that Spark has committed; None when there is none."""
    return _last(checkpoint, "commits")


def last_planned(checkpoint: str) -> int | None:
    """The id of the last micro-batch whose offsets Spark has fixed; None when there is none."""
    return _last(checkpoint, "offsets")


def _last(checkpoint: str, kind: str) -> int | None:
    directory = local_path(checkpoint) / kind
    ids = [int(path.name) for path in directory.glob("*") if path.name.isdecimal()] if directory.is_dir() else []
    return max(ids, default=None)


def query_id(checkpoint: str) -> str:
    """The id of the checkpoint's query, the same for all of its runs. Raises StorageError when it cannot be read.

    ``<checkpoint>/metadata``, which Spark writes before a query's first micro-batch, holds it: ``{"id": …}``.
    """
    path = local_path(checkpoint) / "metadata"
    try:
        found = json.loads(path.read_text())["id"]
    except OSError as error:
        raise StorageError(f"the checkpoint's {path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"the checkpoint's {path} names no query") from error
    return str(found)


def has_run(checkpoint: str) -> bool:
    """Whether a micro-batch was ever begun there."""
    offsets = local_path(checkpoint) / "offsets"
    return offsets.is_dir() and any(path.name.isdecimal() for path in offsets.iterdir())


def remove_checkpoint(checkpoint: str) -> None:
    """Remove a checkpoint as a whole, and what an earlier removal left behind. Raises StorageError."""
    directory = local_path(checkpoint)
    remove_directory(directory, directory.with_name(_GONE + directory.name))


def local_path(checkpoint: str) -> Path:
    """The checkpoint's directory. Raises ConfigError when it is not on a local or mounted file system."""
    parts = urlsplit(checkpoint)
    if parts.scheme not in ("", "file"):
        raise ConfigError(f"checkpoint {checkpoint}: positions are read from local or mounted directories only")
    return Path(unquote(parts.path) if parts.scheme else checkpoint)


def current_batch_id() -> int:
    """The id of the micro-batch that the calling task belongs to."""
    from pyspark import TaskContext

    context = TaskContext.get()
    batch_id = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if batch_id is None:
        raise ConfigError("a pipeline's table was read outside of a micro-batch")
    return int(batch_id)


def _sources(checkpoint: str, batch_id: int) -> list[StreamOffsets]:
    path = local_path(checkpoint) / "offsets" / str(batch_id)
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise StorageError(f"the checkpoint's {path} cannot be read: {error.strerror}") from error
    if not lines or lines[0] != _VERSION:
        raise StorageError(f"the checkpoint's {path} is not an offset log of version {_VERSION}")
    return list(_ours(lines[2:]))


def _ours(lines: Iterable[str]) -> Iterable[StreamOffsets]:
    for line in lines:
        try:
            yield StreamOffsets.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, PositionFormatError):
            continue  # "-", or the line of another kind of source
