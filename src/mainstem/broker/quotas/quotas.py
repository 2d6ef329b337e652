"""The quotas of a node: their limits are in its metadata log, the recent use is in memory.

A request is answered at once. The answer says for how long its connection is then muted (KIP-219). While no quota is
set nothing is measured: a request only checks ``is_active``. The time comes from the clock port.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from mainstem.broker.quotas.entities import MUTATIONS, Entity, candidates
from mainstem.broker.quotas.windows import TokenBucket, WindowedRate
from mainstem.clock import Clock
from mainstem.log.node.metadata import EntryKey, Metadata

_QUOTAS: Final = "quota"
_MEASURED_MAX: Final = 10_000


class Windows(NamedTuple):
    """The time over which a rate is measured: so many windows of so many seconds."""

    number: int
    size_s: float


class Limit(NamedTuple):
    """The limit that a request falls under, and whose use counts towards it."""

    key: str
    value: float
    user: str | None
    client_id: str | None


class Quotas:
    """All quotas, and the use of them."""

    def __init__(self, metadata: Metadata, clock: Clock, windows: Windows, mutation_windows: Windows) -> None:
        self._metadata = metadata
        self._clock = clock
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._limits: dict[Entity, dict[str, float]] = {}
        self._rates: dict[Limit, WindowedRate] = {}
        self._buckets: dict[Limit, TokenBucket] = {}
        self._found: dict[tuple[str, str, str], Limit | None] = {}
        for key, value in metadata.entries(_QUOTAS).items():
            self._limits[_entity(key)] = dict(value["limits"])
        self.is_active = bool(self._limits)

    # ---- limits

    @property
    def limits(self) -> Mapping[Entity, Mapping[str, float]]:
        """The limits, by entity."""
        return self._limits

    def change(self, entity: Entity, limits: Mapping[str, float]) -> None:
        """Set all limits of an entity, or none; durable when it returns. Raises StorageError."""
        self._metadata.put_entries(_QUOTAS, {_entry_key(entity): {"limits": dict(limits)} if limits else None})
        if limits:
            self._limits[entity] = dict(limits)
        else:
            self._limits.pop(entity, None)
        self._found.clear()
        self.is_active = bool(self._limits)

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The limit that counts for a request; None when there is none."""
        asked = key, user, client_id
        if asked not in self._found:
            if len(self._found) >= _MEASURED_MAX:
                self._found.clear()
            self._found[asked] = self._find(key, user, client_id)
        return self._found[asked]

    def _find(self, key: str, user: str, client_id: str) -> Limit | None:
        for entity in candidates(user, client_id):
            value = self._limits.get(entity, {}).get(key)
            if value is not None:
                of_user = user if entity.user is not None else None
                return Limit(key, value, of_user, client_id if entity.client is not None else None)
        return None

    # ---- use

    def use(self, key: str, user: str, client_id: str, amount: float) -> float:
        """Count ``amount`` towards a rate; how many seconds to wait then."""
        limit = self.limit(key, user, client_id)
        if limit is None:
            return 0.0
        now_s = self._clock.monotonic_s()
        group = limit._replace(value=0.0)
        rate = self._rates.get(group)
        if rate is None:
            self._make_room(now_s)
            rate = self._rates[group] = WindowedRate(*self._windows)
        rate.record(amount, now_s)
        return rate.wait_s(limit.value, now_s)

    def may_mutate(self, user: str, client_id: str, partitions: int, *, strict: bool) -> tuple[bool, float]:
        """Whether partitions may be made or removed now, which then counts; and how many seconds to wait.

        A request that is not ``strict`` is always allowed; its client waits afterwards.
        """
        limit = self.limit(MUTATIONS, user, client_id)
        if limit is None:
            return True, 0.0
        now_s = self._clock.monotonic_s()
        group = limit._replace(value=0.0)
        bucket = self._buckets.get(group)
        if bucket is None:
            self._make_room(now_s)
            bucket = self._buckets[group] = TokenBucket(*self._mutation_windows, limit.value, now_s)
        wait_s = bucket.wait_s(limit.value, now_s)
        if strict and wait_s > 0:
            return False, wait_s
        bucket.take(partitions)
        return True, 0.0 if strict else bucket.wait_s(limit.value, now_s)

    def _make_room(self, now_s: float) -> None:
        """Clients choose their names, so the number of names that are kept is bounded."""
        if len(self._rates) >= _MEASURED_MAX:
            self._rates = {group: rate for group, rate in self._rates.items() if not rate.is_idle(now_s)}
        if len(self._buckets) >= _MEASURED_MAX:
            self._buckets.clear()

    @property
    def longest_wait_s(self) -> float:
        """The longest that a connection is not read from for the time that its requests took."""
        return self._windows.number * self._windows.size_s


def _entry_key(entity: Entity) -> EntryKey:
    return tuple(text for part in entity.parts for text in part)


def _entity(key: EntryKey) -> Entity:
    texts = cast("tuple[str | None, ...]", key)
    return Entity.of({str(kind): name for kind, name in zip(texts[::2], texts[1::2], strict=True)})
