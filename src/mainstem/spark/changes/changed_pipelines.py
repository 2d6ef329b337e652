"""Finds pipelines that were changed since their checkpoints were written, and applies the user's choice for each.

This runs before any query starts.

1. Each query's fingerprint is compared with the one beside its checkpoint. One that never ran, or has no fingerprint
   yet, is taken as it is.
2. When one differs and the user made no choice for it, nothing starts: one error names them all, with the choices.
3. ``fresh``: its sink's open transactions are ended, then its checkpoint is removed. It is renamed first, so that a
   query never continues from half a checkpoint.
   ``rebuild``: a pipeline that cannot be rebuilt is refused; the run does the rest (``rebuilding``), fingerprints too.
   The remains of an abandoned rebuild are removed.
4. The fingerprints are written. From here on a restart finds them equal, and goes on without a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstem.errors import DefinitionError
from mainstem.pipelines.changes import Choice, Choices
from mainstem.spark.changes import fingerprint
from mainstem.spark.changes.fingerprint import Fingerprint
from mainstem.spark.changes.rebuilding import Site, abandon, require_rebuildable
from mainstem.spark.checkpoints.checkpoint import has_run, local_path, remove_checkpoint
from mainstem.spark.queries.query import Query


def settle_changes(
    queries: Sequence[Query],
    choices: Choices,
    site: Site,
    on_changed: Callable[[str, str], None] = lambda pipeline, text: None,
) -> dict[str, Fingerprint]:
    """Steps 1 to 4 of the module; the pipelines to rebuild by name, with their fingerprints.

    ``on_changed`` is called with each changed pipeline and what becomes of it.

    Raises DefinitionError when a choice is missing, ConfigError for one that names no pipeline, StorageError.
    """
    choices.require_known(query.pipeline.name for query in queries)
    now = {query.pipeline.name: Fingerprint.of(query) for query in queries}
    changed = {}
    for query in queries:
        name = query.pipeline.name
        before = fingerprint.read(query.checkpoint) if has_run(query.checkpoint) else None
        if before is not None and (differences := before.differences(now[name])):
            changed[name] = "; ".join(differences)
    undecided = {name: why for name, why in changed.items() if choices.of(name) is None}
    if undecided:
        raise DefinitionError(_question(undecided))
    to_rebuild = {name: now[name] for name in changed if choices.of(name) is Choice.REBUILD}
    for query in queries:
        if query.pipeline.name in to_rebuild:
            require_rebuildable(query.pipeline)
    for query in queries:
        name = query.pipeline.name
        if name in to_rebuild:
            continue
        if site.beside(name).is_dir():
            abandon(site, name, [topic.name for topic in query.pipeline.outputs])
        if name in changed and choices.of(name) is Choice.FRESH:
            site.resolve(local_path(query.checkpoint))
            remove_checkpoint(query.checkpoint)
        if fingerprint.read(query.checkpoint) != now[name]:
            fingerprint.write(query.checkpoint, now[name])
    for name, why in changed.items():
        on_changed(name, f"{choices.of(name)}: {why}")
    return to_rebuild


def _question(undecided: dict[str, str]) -> str:
    said = "; ".join(f"{name} ({why})" for name, why in undecided.items())
    word = "pipeline" if len(undecided) == 1 else "pipelines"
    return (
        f"{word} changed since the checkpoint was written: {said}. Run it again with --changed resume (go on from the "
        "checkpoint and its state, if Spark can), --changed rebuild (derive all again beside the topic, compare, and "
        "append what differs) or --changed fresh (derive all again from the inputs' start, into the same topic); "
        "--changed PIPELINE=… chooses for one"
    )
