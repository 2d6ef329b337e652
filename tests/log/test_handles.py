from __future__ import annotations

from mainstem.log.segments.handles import LeastRecentlyUsed


class Holder:
    def __init__(self, *, pinned: bool = False) -> None:
        self.pinned = pinned
        self.released = 0

    def is_pinned(self) -> bool:
        return self.pinned

    def release(self) -> None:
        self.released += 1


def test_over_the_limit_the_one_used_longest_ago_lets_go() -> None:
    first, second, third = Holder(), Holder(), Holder()
    lru = LeastRecentlyUsed(limit=2)
    for holder in (first, second, first, third):
        lru.use(holder)
    assert (first.released, second.released, third.released) == (0, 1, 0)


def test_a_pinned_holder_stays() -> None:
    pinned, other, newest = Holder(pinned=True), Holder(), Holder()
    lru = LeastRecentlyUsed(limit=2)
    for holder in (pinned, other, newest):
        lru.use(holder)
    assert (pinned.released, other.released) == (0, 1)


def test_when_all_are_pinned_the_limit_gives_way() -> None:
    holders = [Holder(pinned=True) for _ in range(5)]
    lru = LeastRecentlyUsed(limit=2)
    for holder in holders:
        lru.use(holder)
    assert len(lru) == 5


def test_what_is_forgotten_is_not_released_again() -> None:
    holder = Holder()
    lru = LeastRecentlyUsed(limit=1)
    lru.use(holder)
    lru.forget(holder)
    lru.use(Holder())
    assert holder.released == 0
