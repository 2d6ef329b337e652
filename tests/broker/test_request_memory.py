from __future__ import annotations

from mainstem.broker.network.request_memory import HeldMemory, RequestMemory


def test_one_principal_leaves_half_of_the_memory_to_the_others() -> None:
    memory = RequestMemory(100, share_bytes=50)
    first, other = (memory.hold(owner, lambda: None) for owner in ("first", "other"))
    taken = 0
    while taken < 1000 and first.try_take(10):
        taken += 10
    assert taken == 50
    assert other.try_take(10)


def test_a_connection_that_holds_its_part_goes_on_by_its_own_answers_alone() -> None:
    memory = RequestMemory(100, share_bytes=50, connection_bytes=20)
    held = memory.hold("someone", lambda: None)
    assert held.try_take(20)
    assert not held.try_take(1)
    assert not held.is_waiting
    held.give_back(20)
    assert held.try_take(1)


def test_one_coming_request_at_a_time_may_exceed_what_is_left_and_the_next_follows() -> None:
    memory = RequestMemory(100)
    woken: list[str] = []
    first, second = (memory.hold("someone", lambda name=name: woken.append(name)) for name in ("first", "second"))
    assert first.try_grow(60)
    assert first.try_grow(1000)
    assert not second.try_grow(10)
    first.came()
    assert woken == ["second"]
    assert second.try_grow(10)


def test_who_gives_back_while_being_woken_lets_the_next_go_on() -> None:
    memory = RequestMemory(10)
    served: list[int] = []
    waiting: list[HeldMemory] = []

    def served_at_once(number: int) -> None:
        assert waiting[number].try_take(10)
        served.append(number)
        waiting[number].give_back(10)

    first = memory.hold("someone", lambda: None)
    assert first.try_take(10)
    for number in range(2_000):
        waiting.append(memory.hold(f"owner {number % 3}", lambda number=number: served_at_once(number)))
        assert not waiting[number].try_take(10)
    first.give_back(10)
    assert sorted(served) == list(range(2_000))


def test_what_moves_to_another_owner_or_is_closed_leaves_nothing_behind() -> None:
    memory, other = RequestMemory(100), RequestMemory(100)
    held = memory.hold("host", lambda: None)
    held.try_take(10)
    held.try_grow(20)
    held.move(other, "user")
    assert (memory.used_bytes, memory.coming_bytes) == (0, 0)
    assert (other.used_bytes, other.coming_bytes) == (10, 20)
    held.close()
    assert (other.used_bytes, other.coming_bytes) == (0, 0)
