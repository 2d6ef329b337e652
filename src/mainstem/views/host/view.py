"""One view: queries, and maintenance: rebuild, verify, delete. Its ``ViewRunner`` applies its topic meanwhile.

Concurrency: everything here is safe from any thread. Rebuild, verify and delete of one view exclude each other: the
second caller gets an UnavailableError at once.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from mainstem.client.log import Log
from mainstem.client.read.start import partitions_of
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.clock import Clock
from mainstem.errors import (
    HistoryRemovedError,
    MainstemError,
    PositionError,
    QueryError,
    StorageError,
    UnavailableError,
    UnknownTopicError,
    ViewStoppedError,
)
from mainstem.model import Position
from mainstem.pipelines.definitions import View as ViewDefinition
from mainstem.views.feed.feed import Feed, LossPolicy, end_of
from mainstem.views.host.applied_line import AppliedLine
from mainstem.views.host.dead_letter_topic import DeadLetterTopic
from mainstem.views.host.runner import NotYetError, ViewRunner
from mainstem.views.host.schemas import TopicValues, values_of_view
from mainstem.views.past.as_of import AsOf, position_at
from mainstem.views.past.historical_stores import HistoricalStores
from mainstem.views.past.past_build import PastBuilder
from mainstem.views.requests import GetQuery, Request, WatchRequest
from mainstem.views.status import Applied, BuiltFrom, RebuildFrom, RebuildResult, VerifyResult, ViewPast, ViewStatus
from mainstem.views.stores.store import Answer, Poison, Row, Snapshot, StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store, store_class
from mainstem.views.stores.store_snapshots import StoreSnapshots, copy_store
from mainstem.views.subscriptions.change_rows import ChangeSubscription
from mainstem.views.subscriptions.changes import Changes
from mainstem.views.subscriptions.subscriptions import Subscriptions
from mainstem.views.verification.diff import DiffAnswer, changes_between
from mainstem.views.verification.diff_request import DiffRequest
from mainstem.views.verification.sampling import Sampler, Sampling, Subject
from mainstem.views.verification.verify import Replay, by_account, compare
from mainstem.views.versions.version import SchemaFoundError, Version
from mainstem.views.versions.versions import (
    Versions,
    awaits_schema,
    check_definition,
    end_wait_for_schema,
    note_origin,
    origin_of,
    past_path,
    snapshots_path,
    store_path,
)

_REBUILD_WAIT_MS = 200
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostContext:
    """Shared by all views of a host.

    ``derived``: the topics whose schema a pipeline or a capture registers; ``snapshot_every``: the number of records
    between two snapshots of a store.
    """

    log: Log
    clock: Clock
    changes: Changes
    derived: frozenset[str]
    timeout_s: float
    snapshot_every: int
    sampling: Sampling

    def wire_client(self, view: str) -> WireClient:
        """A connection to the log for one reader."""
        return WireClient(
            self.log.bootstrap, client_id=f"mainstem-view-{view}", timeout_s=self.timeout_s, reuse_buffers=True
        )


class HostedView:
    """One view: its queries and its maintenance."""

    def __init__(self, definition: ViewDefinition, directory: Path, context: HostContext) -> None:
        self.definition = definition
        self.name = definition.name
        self.topic = definition.topic.name
        self._directory = directory
        self._context = context
        self._versions = Versions(directory)
        self._letters = DeadLetterTopic(context.log, self.name, self.topic, definition.dead_letter_topic)
        self._watchers = Subscriptions()
        self._applied = AppliedLine()
        self._runner = ViewRunner(self.name, self._open_current, context.changes, self._watchers, self._note_position)
        self._maintenance = threading.Lock()
        self._is_rebuilding = False
        self._verified: VerifyResult | None = None
        sampling = context.sampling
        self.sampler = Sampler(self.topic, directory / "sample", context.clock, sampling, self._subject)

    def start(self) -> None:
        """Begin to apply and to answer."""
        with suppress(StorageError):  # what `current` names is not there: the runner says so, of this view alone
            self._versions.sweep()
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.rmtree(self._directory / "sample", ignore_errors=True)
        self._runner.start()

    def stop(self) -> None:
        """Close everything; returns when no thread of the view works any more."""
        self.sampler.end()
        self._runner.retire()
        with self._maintenance:
            pass  # a verification or a rebuild that was under way has given up

    @property
    def location(self) -> str | None:
        """The directory of the view's files, if others may read them and it is open."""
        version = self._runner.version
        return None if version is None else version.location

    @property
    def position(self) -> Position:
        """How far the view has applied; empty while it is not open."""
        version = self._runner.version
        return Position() if version is None else version.position

    def refuse_if_stopped(self) -> None:
        """Raises ViewStoppedError, with the reason, when the view has stopped."""
        state, detail = self._runner.state
        if state in ("stopped", "deleted"):
            raise ViewStoppedError(f"view {self.name} is {state}: {detail}")

    def query(self, request: Request) -> Answer:
        """Ask the view as it is now. Raises QueryError, ViewStoppedError, UnavailableError while it is not open yet."""
        return self._serving(lambda _, store: store.query(request))

    def query_as_of(self, request: Request, as_of: AsOf, timeout_s: float) -> Answer:
        """Ask the view as it was at a past moment; its state is built from the log, if need be, up to ``timeout_s``.

        Raises what ``query`` does, and PositionError, HistoryRemovedError, PositionTimeoutError, LogUnavailableError.
        """
        position = self._position_at(as_of)

        def ask(version: Version, store: ViewStore) -> Answer:
            with _states(version, store, (position,), timeout_s) as (snapshot,):
                return replace(snapshot.answer(request), position=position)

        return self._serving(ask)

    def diff(self, request: DiffRequest) -> DiffAnswer:
        """The changes between two states of the view. Raises the same errors as ``query_as_of``."""
        start = self._position_at(request.start)
        end = None if request.end is None else self._position_at(request.end)

        def compare(version: Version, store: ViewStore) -> DiffAnswer:
            with _states(version, store, (start, end), request.timeout_s) as (before, after):
                changes, next_key = changes_between(before, after, request, self._context.clock)
                return DiffAnswer(changes, start, after.position if end is None else end, next_key)

        return self._serving(compare)

    def past(self) -> ViewPast:
        """How far back the view answers, and its snapshots. Raises as ``query``, and LogUnavailableError."""
        self._require_past()
        with self._client() as client:
            beginning = client.list_offsets(partitions_of(client, [self.topic]), EARLIEST)
        return self._serving(lambda version, _: version.past_from(Position(beginning)))

    def rows_of(self, keys: Sequence[bytes]) -> tuple[list[tuple[str, Row | None]], Position]:
        """Key-value: the rows of keys, None for missing ones, all of one position, and that. Raises as ``query``.

        A key that is not text has no row and is left out.
        """
        return self._serving(lambda _, store: _rows(store, keys))

    def watch(self, request: WatchRequest, wake: Callable[[], None]) -> ChangeSubscription:
        """Listen to changes; ``wake`` says, from any thread, that there are some. Raises as ChangeSubscription."""
        return ChangeSubscription(self, self._watchers, self._context.log, self._client, request, wake)

    def applied(self, wanted: Position) -> Applied:
        """Whether the view has applied up to a position of its topic, and by when. Raises PositionError for others."""
        strangers = sorted(wanted.topics - {self.topic})
        if strangers or not wanted:
            raise PositionError(f"give a position of {self.topic}, the topic of view {self.name}")
        position = self.position
        seen = self._applied.when(wanted) if position.covers(wanted) else None
        time_ms, is_before = (None, False) if seen is None else seen
        return Applied(self.name, position, position.covers(wanted), time_ms, is_before)

    def status(self, covers: Callable[[str, Position], Position]) -> ViewStatus:
        """How the view is. ``covers``: what a position of a topic covers."""
        version = self._runner.version
        state, detail = self._runner.state
        position = self.position
        drift = self._drift()
        if drift is not None and state in ("live", "catching up"):
            detail = drift
        return ViewStatus(
            name=self.name,
            app=self.definition.app,
            kind=self.definition.kind.kind,
            topic=self.topic,
            state=state,
            detail=detail,
            position=position,
            covers=covers(self.topic, position),
            lag=0 if version is None else version.lag,
            dead_letters=0 if version is None else version.dead_letters,
            dead_letter_topic=self._letters.name,
            damaged_offsets=0 if version is None else version.damaged_offsets,
            is_rebuilding=self._is_rebuilding,
            verified=self._verified,
            drifted=drift is not None,
            built_from=None if version is None else version.built_from,
            sampled=self.sampler.sampled,
            location=None if version is None else version.location,
            table=None if version is None else version.table,
            applies=0 if version is None else version.applies,
            apply_s=0.0 if version is None else version.apply_s,
        )

    # ---- maintenance

    def verify(self, *, full: bool = True) -> VerifyResult:
        """Compare the view with a replay of its topic; see `views.verification.verify`. It goes on applying and
        answering.

        Not ``full``: without a replay, if the store's own account shows that no other writer changed it.
        """
        with self._maintaining():
            self.refuse_if_stopped()
            version = self._runner.version
            if version is None:
                raise UnavailableError(f"view {self.name} is not ready yet")
            started_s = self._context.clock.monotonic_s()
            with version.lease() as store, store.snapshot() as snapshot:
                # What a verification has found to differ, an account of writes does not put right.
                result = None if full or self._drift() is not None else by_account(self.name, snapshot)
                if result is None:
                    result = self._compare(version, snapshot)
                    if result.equal and result.compared_from is None:
                        store.mark_verified()
            seconds = self._context.clock.monotonic_s() - started_s
            if not result.equal:
                version.mark_unverified()
            self._verified = replace(result, seconds=seconds, time_ms=self._context.clock.time_ms())
            return self._verified

    def _compare(self, version: Version, snapshot: Snapshot) -> VerifyResult:
        definition = version.definition
        with self._client() as client:
            replay = Replay(
                client,
                self.topic,
                snapshot.position,
                definition.reads,
                on_damaged=definition.on_damaged,
                values=definition.values,
            )
            try:
                return compare(self.name, snapshot, replay, (self._scratch, definition), self._go_on)
            finally:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def rebuild(self, source: RebuildFrom = "log", lake: Path | None = None) -> RebuildResult:
        """Build a new version from the log, beside the old one, which goes on serving; then they swap.

        ``source`` "left" takes the records that retention left in the log; "log" raises HistoryRemovedError if some
        were removed; "lake" takes the records in ``lake``, and the log from there; "snapshot" the view's newest
        snapshot, and the log from there. A snapshot does not repair a store that another process has changed.
        """
        with self._maintaining():
            started_s = self._context.clock.monotonic_s()
            former = self._former()
            values = self._values()
            definition = self._store_definition(values)
            begins_empty = source in ("log", "left")
            path = self._versions.create(self.topic, definition, awaits_schema=begins_empty and not values.is_final)
            version = None
            self._is_rebuilding = True
            try:
                filled = 0 if lake is None else self._fill(path, definition, lake)
                if source == "snapshot":
                    self._begin_at_snapshot(path, definition)
                version = self._open(path, definition)
                version.records = filled
                if source == "log":
                    self._refuse_what_is_left(version.built_from)
                self._catch_up(version)
                if source == "snapshot":
                    self._refuse_gaps(version)
                old = self._runner.adopt(version, partial(self._make_current, path, version))
            except BaseException:
                if version is None or self._runner.version is not version:
                    if version is not None:
                        version.discard()
                    self._versions.remove(path)
                raise
            finally:
                self._is_rebuilding = False
            if old is not None:
                old.close()
            for replaced in (former, None if old is None else old.path):
                if replaced is not None:
                    self._versions.remove(replaced)
            self._verified = None  # it was about the version before
            self.sampler.forget()
            seconds = self._context.clock.monotonic_s() - started_s
            return RebuildResult(self.name, version.records, version.position, seconds, version.built_from)

    def _make_current(self, path: Path, version: Version) -> None:
        try:
            self._versions.make_current(path)
            version.serve()
        except StorageError as error:
            if self._versions.is_current(path):  # the next start opens it, so the old version may show nothing more
                raise ViewStoppedError(f"{error}: restart the view host, which opens the rebuilt version") from error
            raise

    def _fill(self, path: Path, definition: StoreDefinition, location: Path) -> int:
        """Apply a lake's records to the store of a new version; how many. The lake keeps what cannot be applied."""
        from mainstem.views.feed.lake_feed import fill_from_lake  # loads Iceberg, which few need

        store = open_store(store_path(path), definition, for_users=True)
        try:
            records = fill_from_lake(store, location, definition.reads, self._go_on)
        finally:
            store.close()
        note_origin(path, BuiltFrom("lake", origin_of(location.parent).beginning))
        return records

    def _begin_at_snapshot(self, path: Path, definition: StoreDefinition) -> None:
        """Copy the newest snapshot of the version that serves. The log has what came since, or the feed says so."""
        serving = self._runner.version
        if serving is not None:
            check_definition(serving.path, self.topic, definition)
            with serving.snapshots.newest_within(serving.position) as snapshot:
                if snapshot is not None:
                    copy_store(snapshot, store_path(path))
                    note_origin(path, BuiltFrom("snapshot", serving.built_from.beginning))
                    return
        raise UnavailableError(f"view {self.name} has no snapshot to begin at: rebuild it from the log")

    def _refuse_gaps(self, version: Version) -> None:
        if version.has_met_gap:
            raise HistoryRemovedError(
                f"compaction has removed records after the snapshot of view {self.name}, among them, perhaps, "
                "deletions: rebuild it from the log"
            )

    def delete(self) -> None:
        """Delete the view's stored state. It does not answer until it is rebuilt or its host starts again."""
        with self._maintaining():
            self._runner.halt("deleted", "rebuild it, or start its host again, to have it back")
            self._verified = None
            self.sampler.forget()
            self._versions.delete()

    # ---- how

    def _serving(self, work: Callable[[Version, ViewStore], T]) -> T:
        """Do ``work`` with the version that serves, and its store; again with its successor, if it is swapped."""
        while True:
            self.refuse_if_stopped()
            version = self._runner.version
            if version is None:
                state, detail = self._runner.state
                raise UnavailableError(f"view {self.name} is not ready yet ({state}{f': {detail}' if detail else ''})")
            try:
                with version.lease() as store:
                    return work(version, store)
            except ViewStoppedError:
                if self._runner.version is version:
                    raise  # it was closed, and not swapped for another

    def _require_past(self) -> None:
        kind = self.definition.kind
        if not store_class(kind).keeps_past:
            raise QueryError(f"a {kind.kind} view answers for now only: as_of and diff are for key-value and SQL views")

    def _position_at(self, moment: AsOf) -> Position:
        self._require_past()
        with self._client() as client:
            return position_at(client, self.topic, moment, self.definition.on_damaged)

    @property
    def _scratch(self) -> Path:
        return self._directory / "verify"

    @contextmanager
    def _maintaining(self) -> Iterator[None]:
        if not self._maintenance.acquire(blocking=False):
            raise UnavailableError(f"view {self.name} is being rebuilt, verified or deleted just now: try again later")
        try:
            with self.sampler.giving_way():
                yield
        finally:
            self._maintenance.release()

    def _go_on(self) -> None:
        if self._runner.is_retired:
            raise UnavailableError(f"view {self.name} is being stopped")

    def _note_position(self, position: Position) -> None:
        self._applied.note(position, self._context.clock.time_ms())

    def _client(self) -> WireClient:
        return self._context.wire_client(self.name)

    def _values(self) -> TopicValues:
        """Raises NotYetError while the topic's schema is not known, and the view needs it."""
        is_derived, is_new = self.topic in self._context.derived, self._versions.is_empty
        return values_of_view(self.definition, self._context.log, is_derived=is_derived, is_new=is_new)

    def _store_definition(self, values: TopicValues) -> StoreDefinition:
        kind, on_damaged = self.definition.kind, self.definition.on_damaged
        return StoreDefinition(self.name, kind, values.schema, on_damaged, self.topic, values.key, values.encoded)

    def _open_current(self) -> Version:
        values = self._values()
        definition = self._store_definition(values)
        path = self._versions.current()
        if path is not None and values.is_final and awaits_schema(path):
            return self._replace_empty(path, definition)
        if path is not None:
            check_definition(path, self.topic, definition)
            return self._open_as_shown(path, definition)
        with self._client() as client:
            if self.topic not in client.metadata([self.topic]):
                raise NotYetError(f"for topic {self.topic}, which does not exist yet")
        path = self._versions.create(self.topic, definition, awaits_schema=not values.is_final)
        self._versions.make_current(path)
        return self._open_as_shown(path, definition)

    def _replace_empty(self, former: Path, definition: StoreDefinition) -> Version:
        """Open a version with the topic's schema in place of one that was made without it and has no record."""
        path = self._versions.create(self.topic, definition)
        version = None
        try:
            version = self._open(path, definition)
            self._make_current(path, version)
        except BaseException:
            if version is not None:
                version.discard()
            self._versions.remove(path)
            raise
        self._versions.remove(former)
        return version

    def _look_for_schema(self, path: Path, definition: StoreDefinition) -> None:
        """Before a version without a schema gets its first record. Raises SchemaFoundError if there is a schema now.

        Pipelines and captures register a schema before they write.
        """
        values = self._values()
        wanted = self._store_definition(values)
        if values.is_final and (wanted != definition or wanted.values is not None):
            raise SchemaFoundError(f"the view is opened again: topic {self.topic} got a schema before its first record")
        end_wait_for_schema(path)

    def _open_as_shown(self, path: Path, definition: StoreDefinition) -> Version:
        """Open a version that shall serve: no reader may see it further back than it has been."""
        version = self._open(path, definition, serves=True)
        try:
            if version.is_volatile:
                self._catch_up(version)  # whatever was shown lies before the log's end
        except BaseException:
            version.close()
            raise
        return version

    def _open(self, path: Path, definition: StoreDefinition, *, serves: bool = False) -> Version:
        store = open_store(store_path(path), definition, for_users=True)
        client = self._client()
        try:
            if serves:
                store.serve()
            snapshots = StoreSnapshots(snapshots_path(path), self._context.snapshot_every)
            feed = (
                Feed(
                    client,
                    self.topic,
                    store.bookmark,
                    columns=definition.reads,
                    losses=LossPolicy(definition.kind.deletes_rows, definition.on_damaged),
                )
                .reading(definition.values)
                .with_traces()
            )
        except BaseException as error:
            client.close()
            store.close()
            if isinstance(error, UnknownTopicError):
                raise NotYetError(f"for topic {self.topic}, which does not exist yet") from error
            raise
        if not store.position:
            note_origin(path, BuiltFrom("left" if any(feed.beginning.values()) else "log", feed.beginning))
        topic_ids = feed.bookmark.topic_ids
        builder = PastBuilder(self.topic, topic_ids, definition, snapshots, self._client, for_users=True)
        past = HistoricalStores(past_path(path), builder.build, self._context.clock)
        version = Version(path, definition, store, feed, self._send, snapshots, past)
        if awaits_schema(path):
            version.before_first = partial(self._look_for_schema, path, definition)
        return version

    def _send(self, version: Version, poisons: Sequence[Poison]) -> None:
        """Send dead letters, but for those that the serving version of the same topic id has sent already."""
        serving = self._runner.version
        is_beside = serving is not None and serving is not version and serving.topic_ids == version.topic_ids
        self._letters.send(poisons, serving.position if serving is not None and is_beside else Position())

    def _refuse_what_is_left(self, built_from: BuiltFrom) -> None:
        if built_from.source == "left":
            raise HistoryRemovedError(
                f"the log begins at {built_from.beginning}: what view {self.name} would need from before was removed; "
                f"to build it from what is left: mainstem views rebuild {self.name} --from left"
            )

    def _subject(self) -> Subject | None:
        version = self._runner.version
        return None if version is None else Subject(version, self._client())

    def _drift(self) -> str | None:
        """The warning of a status when the view differs from its log."""
        findings = [result for result in (self._verified, self.sampler.sampled) if result and not result.equal]
        if not findings:
            return None
        named = ", ".join(repr(difference.key) for difference in findings[0].differences[:3])
        return f"DRIFTED: it differs from its log at {named}; to rebuild it: mainstem views rebuild {self.name}"

    def _former(self) -> Path | None:
        try:
            return self._versions.current()
        except MainstemError:
            return None  # it names what is not there; the rebuild puts that right

    def _catch_up(self, version: Version) -> None:
        with self._client() as client:
            target = end_of(client, self.topic)
        while not version.position.covers(target):
            self._go_on()
            version.step(_REBUILD_WAIT_MS)


def _rows(store: ViewStore, keys: Sequence[bytes]) -> tuple[list[tuple[str, Row | None]], Position]:
    found: list[tuple[str, Row | None]] = []
    if not keys:
        return found, store.position
    with store.snapshot() as snapshot:
        for key in keys:
            with suppress(UnicodeDecodeError):
                rows = snapshot.query(GetQuery(key.decode()))
                found.append((key.decode(), rows[0] if rows else None))
        return found, snapshot.position


@contextmanager
def _states(
    version: Version, store: ViewStore, positions: Sequence[Position | None], timeout_s: float
) -> Iterator[Sequence[Snapshot]]:
    """The states at some positions, each the newest one, if that is it, or a past one; None is the newest.

    A store that differs from its log serves as no past state: that is right, or refused.
    """
    with ExitStack() as stack:
        found: list[Snapshot | None] = []
        for position in positions:
            newest = stack.enter_context(store.snapshot())
            is_it = newest.position == position and newest.bookmark.is_exact and not version.snapshots.is_void
            found.append(newest if position is None or is_it else None)
            if found[-1] is None:
                newest.close()
        past = {at for at, state in zip(positions, found, strict=True) if at is not None and state is None}
        stores = stack.enter_context(version.past.lease(past, timeout_s))
        yield [
            state or stack.enter_context(stores[position or Position()].snapshot())
            for position, state in zip(positions, found, strict=True)
        ]
