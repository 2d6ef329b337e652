"""Who gets which tasks of a streams group: each once, balanced, where they were, and copies in other processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.groups.streams.task_assignor import StreamsClient, assign
from mainstem.broker.groups.streams.tasks import TaskSet, each_of

MEMBERS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=8, unique_by=lambda each: each[0])
COUNTS = st.dictionaries(st.sampled_from(("0", "1", "2")), st.integers(1, 7), min_size=1)


def clients_of(members: list[tuple[int, int]], targets: Mapping[str, TaskSet]) -> list[StreamsClient]:
    return [StreamsClient(f"m{name}", f"p{process}", targets.get(f"m{name}", TaskSet())) for name, process in members]


def moved(before: Mapping[str, TaskSet], after: Mapping[str, TaskSet]) -> int:
    """How many active tasks a member has that it did not have before."""
    return sum(
        len({*each_of(after[name].active)} - {*each_of(before[name].active)}) for name in before if name in after
    )


def check(
    clients: list[StreamsClient], targets: Mapping[str, TaskSet], counts: Mapping[str, int], standbys: int
) -> None:
    tasks = sorted((key, number) for key in counts for number in range(counts[key]))
    assert sorted(task for target in targets.values() for task in each_of(target.active)) == tasks
    active = Counter({name: len(list(each_of(target.active))) for name, target in targets.items()})
    assert max(active.values()) - min(active.values()) <= 1
    process_of = {client.member_id: client.process_id for client in clients}
    processes = len(set(process_of.values()))
    for task in tasks:
        holders = [
            process_of[name]
            for name in targets
            for role in (targets[name].active, targets[name].standby)
            if task in each_of(role)
        ]
        assert len(holders) == len(set(holders)) == min(1 + standbys, processes)


@given(MEMBERS, COUNTS, st.integers(0, 2))
def test_each_task_is_active_once_balanced_and_copied_elsewhere(
    members: list[tuple[int, int]], counts: dict[str, int], standbys: int
) -> None:
    clients = clients_of(members, {})
    targets = assign(clients, counts, standbys)
    assert targets.keys() == {client.member_id for client in clients}
    if clients:
        check(clients, targets, counts, standbys)


@given(MEMBERS, MEMBERS, COUNTS, st.integers(0, 2))
def test_a_new_target_moves_no_more_than_balance_asks(
    before: list[tuple[int, int]], after: list[tuple[int, int]], counts: dict[str, int], standbys: int
) -> None:
    first = assign(clients_of(before, {}), counts, standbys)
    clients = clients_of(after, first)
    second = assign(clients, counts, standbys)
    if not clients:
        return
    check(clients, second, counts, standbys)
    assert assign(clients_of(after, second), counts, standbys) == second
    gone = {name for name in first if name not in second}
    free = sum(len(list(each_of(first[name].active))) for name in gone)
    if before and gone and not {f"m{name}" for name, _ in after} - first.keys():
        assert moved(first, second) == free  # only what the members that left had


def test_the_last_process_gets_all_tasks_and_no_copies() -> None:
    targets = assign(clients_of([(1, 1), (2, 2)], {}), {"0": 2}, 1)
    alone = assign([StreamsClient("m2", "p2", targets["m2"])], {"0": 2}, 1)
    assert sorted(each_of(alone["m2"].active)) == [("0", 0), ("0", 1)]
    assert not alone["m2"].standby


def test_a_standby_becomes_active_where_there_is_a_choice() -> None:
    targets = {
        "m1": TaskSet({"0": frozenset({0})}),
        "m2": TaskSet({"0": frozenset({1})}),
        "m3": TaskSet({"0": frozenset({2})}, {"0": frozenset({0})}),
        "m4": TaskSet({"0": frozenset({3})}),
    }
    left = [StreamsClient(name, f"p{name}", target) for name, target in targets.items() if name != "m1"]
    then = assign(left, {"0": 4}, 0)
    assert 0 in then["m3"].active["0"]
