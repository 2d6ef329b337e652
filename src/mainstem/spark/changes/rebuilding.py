"""Rebuild: a changed pipeline derives its topics again into shadow topics, then appends what differs to the old ones.

Readers are not disturbed: the topic, its offsets and its old records stay.
The names in brackets are those that ``StepObserver`` is called with.

1. Beside the topics that the pipeline derives, shadow topics are made (``__mainstem_rebuild.<topic>``), and a
   checkpoint of its own (``__rebuild-<pipeline>``) with the new version's fingerprint. Such topics of an earlier
   attempt are removed [rebuild:begun]. These prefixes are reserved: no topic or pipeline of an App can have them, so a
   user's topic is never taken for a shadow.
2. The new version derives all records into the shadow topics [rebuild:derived].
3. Transactions that the old version's sink, the new one's, or an earlier swap left open in the topics are ended, so
   that all of them can be read to their ends. If another producer has a transaction open, nothing is compared.
   Each is compared with its shadow, by the latest value of each key. If keys do not identify rows, the rebuild is
   refused before any change [rebuild:compared].
4. The difference is appended in a transaction (in several, where it is large) [rebuild:appended].
5. A marker is written beside the new checkpoint: from here on a restart finishes the swap [rebuild:marked].
6. The old checkpoint is removed [rebuild:removed], the new one takes its place: its query goes on in the topic itself
   [rebuild:swapped].
7. A progress record is appended: the position that the new version has read, up to the topic's end, and that it was
   rebuilt [rebuild:said].
8. The shadow topics and their progress are removed [rebuild:cleared], then the marker.

A rebuild that is interrupted before 5 resumes when it is requested again. It computes the difference again, so records
that were already appended are not appended twice. After 5 the next start finishes it. The run holds the lock of the
App's checkpoints, so no other run of the App writes meanwhile.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.durable_files import LOCAL_FILES, put_in_place, remove_file, replace_file, sync_tree
from mainstem.errors import DefinitionError, UnknownTopicError
from mainstem.pipelines.definitions import Pipeline
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.spark.changes import fingerprint
from mainstem.spark.changes.fingerprint import Fingerprint
from mainstem.spark.changes.topic_difference import TopicDifference
from mainstem.spark.checkpoints.checkpoint import has_run, query_id, remove_checkpoint
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.options.options import LogOptions
from mainstem.spark.sink.sink_run import StepObserver, ignore_step
from mainstem.spark.sink.transactions import end_open_transactions

_BESIDE: Final = "__rebuild-"  # no pipeline has a name that begins so
_SHADOW: Final = "__mainstem_rebuild."  # no topic of an App has
_TOPIC_CHARS_MAX: Final = 249
_MARKER: Final = "mainstem-swap.json"


@dataclass(frozen=True, slots=True)
class Site:
    """The log of the pipelines, the directory of their checkpoints, and the callback for a rebuild's steps."""

    log: Log
    options: LogOptions
    checkpoints: Path
    on_step: StepObserver = ignore_step

    def beside(self, pipeline: str) -> Path:
        """The checkpoint of a pipeline's new version."""
        return self.checkpoints / _new_version(pipeline)

    def resolve(self, checkpoint: Path) -> None:
        """End what the sink of a checkpoint left open."""
        if has_run(str(checkpoint)):
            end_open_transactions(self.options, query_id(str(checkpoint)))


def require_rebuildable(pipeline: Pipeline) -> None:
    """Raises DefinitionError when what differs cannot be said in the pipeline's topics."""
    if pipeline.each_batch:
        raise DefinitionError(
            f"{pipeline.where}: {pipeline.name} writes by itself, so it cannot be rebuilt; choose fresh"
        )
    for topic in pipeline.outputs:
        if not topic.key:
            raise DefinitionError(
                f"{pipeline.where}: topic {topic.name} has no key, so pipeline {pipeline.name} cannot be rebuilt into "
                "it: derive into a topic of another name, or choose resume or fresh"
            )


def begin(site: Site, pipeline: Pipeline, now: Fingerprint) -> Pipeline:
    """Step 1; the pipeline as it derives into the shadow topics. Raises StorageError, LogUnavailableError."""
    directory, shadow = site.beside(pipeline.name), _shadow_of(pipeline)
    if not directory.is_dir() or fingerprint.read(str(directory)) != now:
        abandon(site, pipeline.name, _names(pipeline))
        fingerprint.write(str(directory), now)
    for topic, beside in zip(pipeline.outputs, shadow.outputs, strict=True):
        partitions = site.log.topics()[topic.name].partitions
        policy = {"cleanup.policy": "compact"} if topic.compacted else {}
        site.log.create_topic(beside.name, partitions=partitions, configs={**policy, **topic.configs}, exist_ok=True)
    site.on_step("rebuild:begun")
    return shadow


def swap(site: Site, pipeline: Pipeline) -> list[str]:
    """Steps 3 to 8; returns a line for each topic. Raises DefinitionError, TransactionTimeoutError in step 3."""
    site.on_step("rebuild:derived")
    transactional_id = f"mainstem-rebuild-{pipeline.name}"
    for checkpoint in (site.checkpoints / pipeline.name, site.beside(pipeline.name)):
        site.resolve(checkpoint)
    with site.log.transaction(transactional_id):
        pass  # beginning one ends what an earlier swap has left open
    found = []
    for topic, beside in zip(pipeline.outputs, _shadow_of(pipeline).outputs, strict=True):
        difference = TopicDifference.between(site.log, topic.name, beside.name)
        if difference.repeats and pipeline.mode == "append":
            raise DefinitionError(
                f"{pipeline.where}: topic {topic.name} has several rows of one key, so pipeline {pipeline.name} cannot "
                "be rebuilt into it: derive into a topic of another name, or choose resume or fresh"
            )
        found.append(difference)
    site.on_step("rebuild:compared")
    for difference in found:
        difference.append_to_live(site.log, transactional_id)
    site.on_step("rebuild:appended")
    marker = {"pipeline": pipeline.name, "outputs": _names(pipeline)}
    sync_tree(site.beside(pipeline.name))  # the old checkpoint goes, and Spark does not sync its files
    _write_marker(site.beside(pipeline.name), marker)
    site.on_step("rebuild:marked")
    finish_swaps(site)
    return [f"topic {difference.live}: {difference}" for difference in found]


def finish_swaps(site: Site) -> None:
    """Steps 6 to 8 of every swap that was begun."""
    for path in sorted(site.checkpoints.glob(f"*/{_MARKER}")):
        marker = json.loads(path.read_text())
        live, beside = site.checkpoints / marker["pipeline"], site.beside(marker["pipeline"])
        if path.parent == beside:
            remove_checkpoint(str(live))
            site.on_step("rebuild:removed")
            put_in_place(beside, live)
            site.on_step("rebuild:swapped")
        _say_progress(site, marker["pipeline"], tuple(marker["outputs"]))
        site.on_step("rebuild:said")
        _remove_shadows(site, marker["pipeline"], marker["outputs"])
        site.on_step("rebuild:cleared")
        remove_file(live / _MARKER)


def abandon(site: Site, pipeline: str, outputs: Iterable[str]) -> None:
    """Remove everything that an abandoned rebuild left behind; ``outputs`` are the pipeline's topics."""
    directory = site.beside(pipeline)
    site.resolve(directory)
    remove_checkpoint(str(directory))
    _remove_shadows(site, pipeline, outputs)


def _names(pipeline: Pipeline) -> list[str]:
    return [topic.name for topic in pipeline.outputs]


def _shadow_of(pipeline: Pipeline) -> Pipeline:
    outputs = tuple(replace(topic, name=_shadow(topic.name), stands_for=topic.name) for topic in pipeline.outputs)
    return replace(pipeline, name=_new_version(pipeline.name), outputs=outputs, stands_for=pipeline.name)


def _new_version(pipeline: str) -> str:
    """The name of a pipeline's new version, and of its checkpoint, until it takes the old one's place."""
    return _BESIDE + pipeline


def _shadow(topic: str) -> str:
    """The name of the topic beside it; of a long name the first characters, and a digest of all."""
    if len(_SHADOW) + len(topic) <= _TOPIC_CHARS_MAX:
        return _SHADOW + topic
    digest = blake2b(topic.encode(), digest_size=16).hexdigest()
    return f"{_SHADOW}{topic[: _TOPIC_CHARS_MAX - len(_SHADOW) - len(digest) - 1]}-{digest}"


def _say_progress(site: Site, pipeline: str, outputs: tuple[str, ...]) -> None:
    """Step 7. The shadow's progress is gone when it was said already."""
    with ProgressLog(site.options, _new_version(pipeline), tuple(map(_shadow, outputs))) as beside:
        last = beside.last()
    if last is not None:
        said = replace(last, pipeline=pipeline, outputs=outputs, sink=site.log.end(*outputs), rebuilt=True)
        key, value = said.to_record()
        site.log.append(PROGRESS_TOPIC, value, key=key)


def _remove_shadows(site: Site, pipeline: str, outputs: Iterable[str]) -> None:
    for topic in outputs:
        with contextlib.suppress(UnknownTopicError):
            site.log.delete_topic(_shadow(topic))
    site.log.append(PROGRESS_TOPIC, None, key=_new_version(pipeline))


def _write_marker(directory: Path, marker: dict[str, Any]) -> None:
    replace_file(LOCAL_FILES, directory / _MARKER, json.dumps(marker).encode())
