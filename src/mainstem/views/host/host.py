"""The view host: it applies views, and answers their reads. One directory, one process, one thread for each view.

A read may ask for ``at_least`` a position of any topic upstream of the view, over any number of pipelines, or for a
state at most ``max_lag_ms`` behind the log (`views.feed.end_samples`), and then waits until the view covers it
(`views.feed.coverage`). It never gets an older answer: a position that the view can never cover, or that lies beyond
the log's end, is refused at once; one that is not covered in time is a time-out that names both positions.

Thread-safe. A process that hosts views should set ``sys.setswitchinterval(1e-4)``: appliers and stores take and give
the interpreter's lock often, and a thread that computes would hold it for 5 ms each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.clock import Clock, SystemClock
from mainstem.durable_files import DirectoryLock, make_directory
from mainstem.errors import (
    AuthorizationError,
    ConfigError,
    HistoryRemovedError,
    PositionError,
    PositionTimeoutError,
    StorageError,
    UnavailableError,
    UnknownTopicError,
    UnknownViewError,
    UnsupportedFeatureError,
)
from mainstem.model import DATABASE_TOPIC_PREFIX, MIRROR_OF, Position
from mainstem.pipelines.definitions import CapturedTables, Pipeline
from mainstem.pipelines.definitions import View as ViewDefinition
from mainstem.pipelines.kinds import Lake
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.tracing.spans import inside
from mainstem.views.feed.coverage import Coverage, Hop, Wait
from mainstem.views.feed.end_samples import EndSamples, committed_ends
from mainstem.views.feed.open_transactions import holding_back
from mainstem.views.host.pipeline_states import PipelineStates
from mainstem.views.host.progress_follower import ProgressFollower
from mainstem.views.host.view import HostContext, HostedView
from mainstem.views.host.waited_reads import WaitedReads
from mainstem.views.read_options import WAIT_S, ReadOptions
from mainstem.views.requests import Request, WatchRequest
from mainstem.views.status import (
    Applied,
    RebuildFrom,
    RebuildResult,
    Sampled,
    VerifyResult,
    ViewPast,
    ViewStatus,
    Waited,
)
from mainstem.views.stores.store import Answer
from mainstem.views.stores.store_kinds import store_class
from mainstem.views.stores.store_snapshots import EVERY_RECORDS
from mainstem.views.subscriptions.change_rows import ChangeSubscription
from mainstem.views.subscriptions.changes import Changes
from mainstem.views.verification.diff import DiffAnswer
from mainstem.views.verification.diff_request import DiffRequest
from mainstem.views.verification.sampling import Sampling, SamplingThread

_LOG_TIMEOUT_S = 10.0
_ASIDE_TIMEOUT_S = 2.0
_LOCK = "__lock"  # no view has a name that begins so


class ViewHost:
    """The views of one process; a context manager from ``start`` to ``stop``."""

    def __init__(
        self,
        views: Sequence[ViewDefinition],
        bootstrap: str,
        directory: Path,
        *,
        pipelines: Iterable[Pipeline] = (),
        captures: Iterable[CapturedTables] = (),
        clock: Clock | None = None,
        snapshot_every: int = EVERY_RECORDS,
        sampling: Sampling | None = None,
    ) -> None:
        """``pipelines``, ``captures``: those of the App, so that what they read is known before their first progress.

        ``snapshot_every``: how many records lie between two snapshots of a view's store. ``sampling``: verify the views
        in the background (`views.verification.sampling`).
        """
        self._directory = directory
        self._clock = clock or SystemClock()
        self._changes = Changes()
        self._waited = WaitedReads(self._clock)
        hops = [*map(_hop, pipelines := tuple(pipelines)), *map(_capture_hop, captures := tuple(captures))]
        self._coverage = Coverage(hops)
        self._log = Log(bootstrap, timeout_s=_LOG_TIMEOUT_S, client_id="mainstem-view-host")
        self._follower = ProgressFollower(self._log, self._coverage, self._changes)
        self._pipeline_states = PipelineStates(self._log, self._clock)
        derived = frozenset(topic.name for pipeline in pipelines for topic in pipeline.outputs) | _typed(captures)
        pace = sampling or Sampling()
        around = HostContext(self._log, self._clock, self._changes, derived, _LOG_TIMEOUT_S, snapshot_every, pace)
        self._views: Mapping[str, HostedView] = {
            definition.name: HostedView(definition, directory / definition.name, around) for definition in views
        }
        samplers = [view.sampler for view in self._views.values() if view.definition.kind.verified_in_background]
        self._sampling = None if sampling is None else SamplingThread(samplers)
        self._ends_client = around.wire_client("ends")
        self._samples = EndSamples(partial(committed_ends, self._ends_client), self._coverage.upstream, self._clock)
        self._knows_pipelines = False
        self._lock: DirectoryLock | None = None

    def start(self) -> None:
        """Take the directory, and start every view. Raises DirectoryLockedError, StorageError."""
        self._lock = _lock(self._directory)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        for view in self._views.values():
            # Before there are threads: CPython 3.11 can fail to compile what several threads import at once
            # ("AST constructor recursion depth mismatch").
            store_class(view.definition.kind)
        self._follower.start()
        self._pipeline_states.start()
        for view in self._views.values():
            view.start()
        if self._sampling is not None:
            self._sampling.start()

    def stop(self) -> None:
        """Stop every view and close its store. Idempotent."""
        if self._lock is None:
            return
        self._follower.stop()
        self._pipeline_states.stop()
        if self._sampling is not None:
            self._sampling.stop()
        for view in self._views.values():
            view.stop()
        self._ends_client.close()
        self._log.close()
        self._lock.release()
        self._lock = None

    def __enter__(self) -> ViewHost:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def status(self, view: str | None = None) -> list[ViewStatus]:
        """How the views are, or the one of that name. Raises UnknownViewError."""
        chosen = self._views.values() if view is None else [self._view(view)]
        return [entry.status(self._coverage.covers) for entry in chosen]

    def wait(self, view: str, until: Callable[[ViewStatus], bool], timeout_s: float = WAIT_S) -> ViewStatus:
        """Wait until a view's status is as wanted. Raises UnknownViewError, UnavailableError when it is not in time."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            seen = self._changes.count
            [status] = self.status(view)
            if until(status):
                return status
            remaining_s = deadline_s - self._clock.monotonic_s()
            if remaining_s <= 0:
                raise UnavailableError(f"view {view} is {status.state} after {timeout_s:g} s: {status.detail}")
            self._changes.wait(seen, remaining_s)

    def query(self, view: str, request: Request, options: ReadOptions | None = None) -> Answer:
        """The answer of a view, as fresh as ``options`` ask, for which it waits, or of the past moment that they name.

        Raises UnknownViewError, QueryError, PositionError (it can never be covered), PositionTimeoutError,
        HistoryRemovedError (of a past moment), ViewStoppedError, LogUnavailableError, UnavailableError while the view
        is not open yet; and, for checkpoints, ConfigError where the topic is not verifiable.
        """
        chosen = self._view(view)
        options = options or ReadOptions()
        if options.as_of is not None:
            answer = chosen.query_as_of(request, options.as_of, options.timeout_s)
        else:
            wait = self._wait_until_fresh(chosen, options)
            answer = chosen.query(request)
            if wait is not None and not wait.is_reached(answer.position):
                raise UnavailableError(
                    f"view {view} had applied what you asked for, and answers as of {answer.position} now: its "
                    "database went back, as after a failover. The next record mends that, or a restart of the host"
                )
        answer = replace(answer, covers=self._coverage.covers(chosen.topic, answer.position))
        return replace(answer, checkpoints=self._checkpoints(answer.position)) if options.checkpoints else answer

    def _checkpoints(self, position: Position) -> dict[str, str]:
        """The signed checkpoint of each partition of a position, covering it. They are text."""
        readers = {tp: self._log.tree(tp.topic, tp.partition) for tp in position}
        return {str(tp): reader.checkpoint_covering(position[tp]).decode() for tp, reader in readers.items()}

    def watch(self, view: str, request: WatchRequest, wake: Callable[[], None]) -> ChangeSubscription:
        """Listen to a view's changes until the watch is closed. Raises UnknownViewError and as ChangeSubscription."""
        return self._view(view).watch(request, wake)

    def diff(self, view: str, request: DiffRequest) -> DiffAnswer:
        """The changes between two states of a view. Raises the same errors as ``query`` of a past moment."""
        return self._view(view).diff(request)

    def past(self, view: str) -> ViewPast:
        """How far back a view answers. Raises the same errors as ``query`` of a past moment."""
        return self._view(view).past()

    def applied(self, view: str, position: Position) -> Applied:
        """Whether a view has applied a position of its topic, and by when. Raises UnknownViewError, PositionError."""
        return self._view(view).applied(position)

    def waited(self, view: str, record: Position) -> Waited:
        """The reads that waited for a view to cover the record just before ``record``. Raises UnknownViewError."""
        return self._waited.of(self._view(view).name, record)

    def verify(self, view: str, *, full: bool = True) -> VerifyResult:
        """Compare a view with a replay of its topic; not ``full``: only where its store's own account does not suffice.

        Raises UnknownViewError, UnavailableError.
        """
        result = self._view(view).verify(full=full)
        try:
            return replace(result, checkpoints=self._checkpoints(result.position))
        except (ConfigError, UnsupportedFeatureError):
            return result  # the topic is not verifiable, or the log knows no such topics

    def sample(self, view: str) -> Sampled | None:
        """Verify the next bucket of a view's keys now (`views.verification.sampling`). Raises UnknownViewError."""
        return self._view(view).sampler.round()

    def rebuild(self, view: str, source: RebuildFrom = "log") -> RebuildResult:
        """Rebuild a view; the old version serves until the new one is ready.

        Raises UnknownViewError, UnavailableError, and HistoryRemovedError when the source is "log" and records were
        removed, when it is "lake" and there is none, or when compaction removed records after a "snapshot".
        """
        chosen = self._view(view)
        return chosen.rebuild(source, self._lake_of(chosen.topic) if source == "lake" else None)

    def delete(self, view: str) -> None:
        """Delete what is stored of a view. Raises UnknownViewError, UnavailableError."""
        self._view(view).delete()

    def _lake_of(self, topic: str) -> Path:
        """The directory of the lake that a view of this host keeps of ``topic``.

        Raises HistoryRemovedError if it keeps none; while none is open, ViewStoppedError or UnavailableError.
        """
        views = [view for view in self._views.values() if view.topic == topic]
        lakes = [view for view in views if isinstance(view.definition.kind, Lake)]
        if not lakes:
            raise HistoryRemovedError(f"no Lake view of topic {topic} is on this host: nothing to rebuild from")
        for lake in lakes:
            if lake.location is not None:
                return Path(lake.location)
        lakes[0].refuse_if_stopped()
        raise UnavailableError(f"the Lake view {lakes[0].name} of topic {topic} is not open yet: try again later")

    def _view(self, name: str) -> HostedView:
        try:
            return self._views[name]
        except KeyError:
            known = ", ".join(sorted(self._views)) or "none"
            raise UnknownViewError(f"there is no view {name!r}; there are: {known}") from None

    def _wait_until_fresh(self, chosen: HostedView, options: ReadOptions) -> Wait | None:
        """Wait until the view is as fresh as ``options`` ask. Returns the wait, or None if they ask for nothing."""
        deadline_s = self._clock.monotonic_s() + options.timeout_s
        wanted = options.at_least or Position()
        if options.max_lag_ms is not None:
            if not self._knows_pipelines:
                self._read_progress(chosen, wanted, options, deadline_s)
            patience_s = options.timeout_s + _LOG_TIMEOUT_S
            wanted = wanted | self._samples.target(chosen.topic, options.max_lag_ms, patience_s)
        if not wanted:
            return None
        try:
            wait = self._coverage.wait(chosen.topic, wanted)
        except PositionError:
            # After a start, or with a new pipeline, the record that names the topic's inputs may not be read yet.
            self._read_progress(chosen, wanted, options, deadline_s)
            wait = self._coverage.wait(chosen.topic, wanted)
        self._wait(chosen, wait, options, deadline_s)
        return wait

    def _read_progress(self, view: HostedView, wanted: Position, options: ReadOptions, deadline_s: float) -> None:
        """Wait until the host knows all progress that the log has now, and so all pipelines that ever reported any.

        A host that may not read the progress goes on with what its App declares. Raises PositionTimeoutError,
        LogUnavailableError.
        """
        try:
            end = committed_ends(self._ends_client, [PROGRESS_TOPIC])
        except AuthorizationError:
            return
        if not self._follower.wait_for(end, max(0.0, deadline_s - self._clock.monotonic_s())):
            given = f"{options.timeout_s:g} s"
            text = (
                f"the host of view {view.name} did not find out within {given} which topics {view.topic} derives from"
            )
            raise PositionTimeoutError(text, wanted=wanted, reached=view.position.restrict(wanted.topics))
        self._knows_pipelines = True

    def _wait(self, view: HostedView, wait: Wait, options: ReadOptions, deadline_s: float) -> None:
        seen = self._changes.count
        if wait.is_reached(view.position):
            return
        self._refuse_beyond_the_end(options.at_least or Position())
        covered = self._coverage.covers(view.topic, view.position)
        with self._waited.waiting(view.name, options.reader, wait.at_least, covered), inside(f"wait {view.name}", {}):
            while not wait.is_reached(view.position):
                view.refuse_if_stopped()
                remaining_s = deadline_s - self._clock.monotonic_s()
                if remaining_s <= 0:
                    raise self._timeout(view, wait, options)
                self._changes.wait(seen, remaining_s)
                seen = self._changes.count

    def _refuse_beyond_the_end(self, at_least: Position) -> None:
        """Refuse a position that no record of this log has. The copy of another log's topic has yet to get there."""
        for topic in sorted(at_least.topics):
            if topic.startswith(DATABASE_TOPIC_PREFIX):
                continue  # how far the database is, the log does not know
            try:
                end = self._log.end(topic)
            except UnknownTopicError as error:
                raise PositionError(f"the position names topic {topic}, which does not exist") from error
            for tp, offset in at_least.restrict([topic]).items():
                if tp not in end:
                    raise PositionError(f"the position names {tp}: topic {topic} has {len(end)} partitions, from 0")
                if offset > end[tp] and not self._log.describe_topic(topic).configs.get(MIRROR_OF):
                    raise PositionError(f"the position {tp}:{offset} is beyond the log's end, {tp}:{end[tp]}")

    def _timeout(self, view: HostedView, wait: Wait, options: ReadOptions) -> PositionTimeoutError:
        reached = self._coverage.covers(view.topic, view.position).restrict(wait.at_least.topics)
        given = f"{options.timeout_s:g} s"
        text = f"view {view.name} did not reach {wait.at_least} in {given}; it covers {reached or 'none of it'}"
        with WireClient(self._log.bootstrap, timeout_s=_ASIDE_TIMEOUT_S) as client:
            transactions = holding_back(client, wait.at_least, view.topic)
        if transactions:
            text += f"; open transactions hold it back: {', '.join(transactions)}"
        pipelines = self._pipeline_states.failing(wait.waits_for(), with_errors=options.sees_pipelines)
        text += "".join(f"; pipeline {pipeline}" for pipeline in pipelines)
        return PositionTimeoutError(
            text, wanted=wait.at_least, reached=reached, transactions=transactions, pipelines=pipelines
        )


def _hop(pipeline: Pipeline) -> Hop:
    streams = frozenset(topic.name for topic in pipeline.streams)
    tables = frozenset(topic.name for topic in pipeline.tables) - streams
    return Hop(pipeline.name, streams, tables, frozenset(topic.name for topic in pipeline.outputs))


def _typed(captures: Iterable[CapturedTables]) -> frozenset[str]:
    """The topics whose columns a capture registers at its start: not those of an envelope."""
    typed = (captured for captured in captures if captured.settings.envelope == "row")
    return frozenset(topic.name for captured in typed for topic in captured.values())


def _capture_hop(captured: CapturedTables) -> Hop:
    source = DATABASE_TOPIC_PREFIX + captured.settings.name
    return Hop(captured.settings.name, frozenset((source,)), frozenset(), frozenset(t.name for t in captured.values()))


def _lock(directory: Path) -> DirectoryLock:
    try:
        make_directory(directory)
        return DirectoryLock.take(
            directory / _LOCK, f"another process, {{holder}}, hosts the views in {directory}: stop it first"
        )
    except StorageError as error:
        raise StorageError(f"the views' directory {directory} cannot be used: {error}") from error
