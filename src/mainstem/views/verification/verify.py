"""Verifying a view: replay its topic up to the view's position into a scratch store, and compare what both hold.

Before that, or on request instead of it, the store's own account (`store.Account`, `views.stores.close_digest`) can
show that no other process has written to it: that needs no replay. Only an intact account is accepted; if it is broken,
or there is none, the replay decides, and names the differences.

The view goes on applying and answering: a snapshot is compared. Digests are compared first; only when they differ are
the entries walked, side by side in the order of their keys, for the first differences.

Where the log has removed records, a replay of the rest may rightly differ from the view, and only the part that the
replay can decide is compared:

* by *retention*: a key that the replay does not have may rightly be in the view. Only the keys that it has are compared
  (of a graph its records; its edges, which many keys decide, with the records that it holds itself), and the result
  says from which position on. Rows that are made of all records of a key cannot be compared.
* by *compaction*: a lake may rightly have records that the replay lacks. In the other kinds a replay is whole again at
  the offset where the log ended when the replay met the gap. Before that offset a difference proves nothing, and
  UnavailableError is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import HistoryRemovedError, UnavailableError, ViewStoppedError
from mainstem.model import OnDamaged, Position
from mainstem.pipelines.kinds import Kind
from mainstem.views.feed.feed import FETCH_BYTES, Feed, LossPolicy
from mainstem.views.feed.read_ahead import ReadAhead
from mainstem.views.status import Difference, VerifyResult
from mainstem.views.stores.store import (
    APPLY_COLUMNS,
    Bookmark,
    Bucket,
    Row,
    Snapshot,
    StoreDefinition,
    ValuesAsJson,
    ViewStore,
    no_dead_letters,
)
from mainstem.views.stores.store_kinds import open_store

_DIFFERENCES_MAX = 20
_WAIT_MS = 500
_EVERY_KEY = Bucket(0, 1)

Choose: TypeAlias = "Callable[[pa.RecordBatch], pa.RecordBatch]"


class Replay:
    """A topic, replayed from its beginning to a position into a store of its own."""

    def __init__(
        self,
        client: WireClient,
        topic: str,
        until: Position,
        columns: frozenset[str] = APPLY_COLUMNS,
        *,
        begin: Bookmark = Bookmark(),  # noqa: B008  # immutable
        fetch_bytes: int = FETCH_BYTES,
        on_damaged: OnDamaged = "stop",
        values: ValuesAsJson | None = None,
    ) -> None:
        """The records come with ``columns``, about ``fetch_bytes`` at a time; from ``begin`` on where that is given.

        Raises UnknownTopicError, LogUnavailableError, and ViewStoppedError when the log does not reach there.
        """
        losses = LossPolicy(on_damaged=on_damaged)
        self._feed = Feed(client, topic, begin, until, columns=columns, fetch_bytes=fetch_bytes, losses=losses).reading(
            values
        )
        if not self._feed.end.covers(until):
            raise ViewStoppedError(f"the log ends at {self._feed.end}, before the view's position {until}: rebuild it")
        self.records = 0

    @property
    def beginning(self) -> Position | None:
        """Where the replay began, if the log has removed what came before."""
        beginning = self._feed.beginning
        return beginning if any(beginning.values()) else None

    def into(self, store: ViewStore, go_on: Callable[[], None], choose: Choose | None = None) -> None:
        """Apply everything, or what is chosen. ``go_on`` is called at each step, and may raise to end it.

        What is chosen is for the background, and uses one thread.
        """
        if choose is None:
            steps = ReadAhead(self._feed, store.read)
        else:
            steps = ReadAhead(self._feed, lambda arrow_batch: store.read(choose(arrow_batch)), ahead_offsets=None)
        with steps:
            while not steps.is_at_end:
                go_on()
                found = steps.next(_WAIT_MS)
                if found is not None:
                    store.write(found.read, found.step.bookmark, no_dead_letters)
                    self.records += found.step.arrow_batch.num_rows


def by_account(view: str, snapshot: Snapshot) -> VerifyResult | None:
    """The verification by the store's own account; None when it cannot say that all is well."""
    if not snapshot.intact():
        return None
    account = snapshot.bookmark.account
    digest = None if account is None else account.digest
    return VerifyResult(
        view=view,
        equal=True,
        records=0,
        entries=0 if digest is None else digest.entries,
        position=snapshot.position,
        compared_from=None,
        differences=(),
        seconds=0.0,
        time_ms=0,
        method="account",
    )


def compare(
    view: str, snapshot: Snapshot, replay: Replay, scratch: tuple[Path, StoreDefinition], go_on: Callable[[], None]
) -> VerifyResult:
    """Compare ``snapshot`` with the replay up to its position; times are the caller's to fill in.

    Raises HistoryRemovedError where that cannot be done: the log has lost records that rows are made of; and
    UnavailableError where it cannot be done yet: compaction has passed the view's position.
    """
    path, definition = scratch
    store = open_store(path, definition)
    try:
        replay.into(store, go_on)
        with store.snapshot() as expected:
            digest = snapshot.digest()
            equal = digest == expected.digest()
            if not equal:
                _refuse_undecidable(view, definition, expected, replay.beginning)
            is_partial = replay.beginning is not None or (
                definition.kind.keeps_every_record and bool(expected.bookmark.exact_from)
            )
            found = () if equal else tuple(_differences(definition.kind, expected, snapshot, is_partial=is_partial))
    finally:
        store.discard()
    return VerifyResult(
        view=view,
        equal=equal or (is_partial and not found),
        records=replay.records,
        entries=digest.entries,
        position=snapshot.position,
        compared_from=replay.beginning,
        differences=found,
        seconds=0.0,
        time_ms=0,
    )


def _refuse_undecidable(view: str, definition: StoreDefinition, expected: Snapshot, beginning: Position | None) -> None:
    """Raises as ``compare`` does, where a difference does not mean that the view is wrong."""
    gap = expected.bookmark.exact_from
    if definition.kind.needs_every_record and (beginning is not None or gap):
        where = "was compacted" if beginning is None else f"begins at {beginning}"
        raise HistoryRemovedError(
            f"the log {where}: the rows of view {view} are made of all records, also of those that were removed, so a "
            "replay of what is left cannot tell whether they are right"
        )
    if not expected.bookmark.is_exact and not definition.kind.keeps_every_record:
        raise UnavailableError(
            f"compaction has removed records before {expected.position} that later records replace, so a replay up to "
            f"there cannot show whether view {view} is right: verify it again when it has passed {gap}"
        )


def _differences(kind: Kind, expected: Snapshot, actual: Snapshot, *, is_partial: bool) -> Iterator[Difference]:
    if not is_partial or kind.keeps_every_record:
        return differences(expected.entries(), actual.entries(), is_partial=is_partial)
    left, right = expected.sample(_EVERY_KEY), actual.sample(_EVERY_KEY)
    assert left is not None, "what needs every record was refused"
    assert right is not None, "both are of one kind"
    return differences(left, right, is_partial=True, except_prefix=kind.entries_without_records)


def differences(
    expected: Iterator[tuple[str, Row]],
    actual: Iterator[tuple[str, Row]],
    *,
    is_partial: bool = False,
    except_prefix: str | None = None,
) -> Iterator[Difference]:
    """The first entries that differ between ``expected`` and ``actual``, which are both in the order of their names.

    ``is_partial``: unexpected entries are not compared, except those whose names begin with ``except_prefix``.
    """
    found = 0
    for key, wanted, present in side_by_side(expected, actual):
        if wanted == present or (
            is_partial and wanted is None and not (except_prefix and key.startswith(except_prefix))
        ):
            continue
        yield Difference(key, wanted, present)
        found += 1
        if found == _DIFFERENCES_MAX:
            return


def side_by_side(
    left: Iterator[tuple[str, Row]], right: Iterator[tuple[str, Row]]
) -> Iterator[tuple[str, Row | None, Row | None]]:
    """Both in the order of their keys' bytes, joined by key."""
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0].encode() < other[0].encode()):
            assert one is not None
            yield one[0], one[1], None
            one = next(left, None)
        elif one is None or other[0].encode() < one[0].encode():
            yield other[0], None, other[1]
            other = next(right, None)
        else:
            yield one[0], one[1], other[1]
            one, other = next(left, None), next(right, None)
