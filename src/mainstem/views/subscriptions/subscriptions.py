"""The subscriptions to a view's changes, and the pending keys of each.

After each apply the applier reports the changed keys (``applied``); without subscriptions that costs nothing. A
``Watch`` keeps the keys of its filter that changed since they were last taken, and the position up to which they are
complete. It keeps no rows: they are read on delivery. So a slow client gets each key once, however often it changed.
A watch holds at most ``KEYS_MAX`` keys; beyond that it fails.

Invariant: a client that received every key up to a watch's position has seen every change up to it.

Thread-safe: the applier's thread calls ``applied``, any other a Watch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from mainstem.model import Position

KEYS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class WatchFilter:
    """Which changes: those of one key, those of the keys with a prefix, or, with neither, that there were any."""

    key: bytes | None = None
    prefix: bytes | None = None


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys that were taken from a watch. ``position`` is None while more keys before it are pending."""

    keys: tuple[bytes, ...]
    position: Position | None
    has_moved: bool
    is_reset: bool
    is_too_many: bool


class Subscriptions:
    """The watches of one view."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._position = Position()
        self._by_key: dict[bytes, set[Watch]] = {}
        self._others: set[Watch] = set()

    def __len__(self) -> int:
        return len(self._others) + sum(map(len, self._by_key.values()))

    def watch(self, wanted: WatchFilter, wake: Callable[[], None]) -> Watch:
        """Start a watch; ``wake`` is called, from any thread, when there is something to take."""
        with self._lock:
            watch = Watch(self, self._lock, wanted, wake, self._position)
            if wanted.key is not None:
                self._by_key.setdefault(wanted.key, set()).add(watch)
            else:
                self._others.add(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        """End a watch. Idempotent."""
        with self._lock:
            self._others.discard(watch)
            key = watch.wanted.key
            if key is not None and key in self._by_key:
                self._by_key[key].discard(watch)
                if not self._by_key[key]:
                    del self._by_key[key]

    def applied(self, arrow_batch: pa.RecordBatch, position: Position) -> None:
        """The view has applied these records, and is at ``position``."""
        if not self._by_key and not self._others:  # a watch that begins just now begins before this position
            with self._lock:
                if not self._by_key and not self._others:
                    self._position = position
                    return
        keys = dict.fromkeys(key for key in arrow_batch.column("key").unique().to_pylist() if key is not None)
        with self._lock:
            self._position = position
            for key in keys.keys() & self._by_key.keys():
                for watch in self._by_key[key]:
                    watch.touch((key,))
            for watch in self._others:
                prefix = watch.wanted.prefix
                watch.touch(() if prefix is None else (key for key in keys if key.startswith(prefix)))

    def opened(self, position: Position, *, is_swap: bool) -> None:
        """A version at ``position`` serves now; after a swap all watches reset, because any row may differ."""
        with self._lock:
            self._position = position
            if is_swap:
                self._tell_all(is_reset=True)

    def wake_all(self) -> None:
        """Wake all watches, because the view's state changed."""
        with self._lock:
            self._tell_all(is_reset=False)

    @property
    def position(self) -> Position:
        """The position that the view last reported; the caller holds the lock."""
        return self._position

    def _tell_all(self, *, is_reset: bool) -> None:
        for watch in [*self._others, *(watch for watches in self._by_key.values() for watch in watches)]:
            watch.wake(is_reset=is_reset)


class Watch:
    """The pending keys of one subscription. Only ``Subscriptions`` calls ``touch`` and ``wake``, with the lock held."""

    def __init__(
        self,
        watchers: Subscriptions,
        lock: threading.Lock,
        wanted: WatchFilter,
        wake: Callable[[], None],
        position: Position,
    ) -> None:
        self.wanted = wanted
        self.began = position
        """The position where the watch began: it reports every change after it."""
        self._watchers = watchers
        self._lock = lock
        self._wake = wake
        self._keys: dict[bytes, None] = {}
        self._has_moved = self._is_reset = self._is_too_many = self._is_awake = False

    @property
    def position(self) -> Position | None:
        """The position up to which everything has been taken; None while there is something to take."""
        with self._lock:
            has_pending = self._keys or self._is_reset or self._has_moved
            return None if has_pending else self._watchers.position

    def take(self, keys_max: int) -> Touched:
        """Take the next keys, those that have waited longest first."""
        with self._lock:
            keys = tuple(key for key, _ in zip(self._keys, range(keys_max), strict=False))
            for key in keys:
                del self._keys[key]
            position = None if self._keys else self._watchers.position
            taken = Touched(keys, position, self._has_moved, self._is_reset, self._is_too_many)
            self._has_moved = self._is_reset = False
            self._is_awake = bool(self._keys)
            return taken

    def add(self, keys: Iterable[bytes]) -> None:
        """Add keys to the pending ones."""
        with self._lock:
            self.touch(keys)

    def close(self) -> None:
        """End the watch. Idempotent."""
        self._watchers.forget(self)

    def touch(self, keys: Iterable[bytes]) -> None:
        """These keys changed; of a watch without a filter, something did."""
        if not self._is_too_many:
            self._keys.update(dict.fromkeys(keys))
        if len(self._keys) > KEYS_MAX:
            self._is_too_many = True
            self._keys.clear()
        if self.wanted.key is None and self.wanted.prefix is None:
            self._has_moved = True
        if self._keys or self._has_moved or self._is_too_many:
            self.wake(is_reset=False)

    def wake(self, *, is_reset: bool) -> None:
        """Wake the listener, once until it takes."""
        self._is_reset |= is_reset
        if not self._is_awake:
            self._is_awake = True
            self._wake()
