"""The checker finds each anomaly in a history that has it, and none in one that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.checker import check, check_moved
from tests.history.operations import FAIL, INFO, OK, Operation, Poll, Send, from_line, read_history, to_line

P = "t/0"
Q = "t/1"


def op(client: str, place: int, status: str, *steps: Send | Poll, transaction: bool = False, **more: int) -> Operation:
    return Operation(client, place, status, steps, transaction, **more)  # type: ignore[arg-type]


def final(**partitions: dict[int, str]) -> Operation:
    """What is there at the end; t0 is partition t/0."""
    records = {f"{name[:-1]}/{name[-1]}": list(values.items()) for name, values in partitions.items()}
    return Operation("final", 0, OK, (Poll(records),), is_final=True)


def kinds(*history: Operation) -> set[str]:
    return {anomaly.kind for anomaly in check(list(history))}


def test_a_history_in_which_all_is_well_has_no_anomaly() -> None:
    history = [
        op("a", 1, OK, Send(P, "x", 0)),
        op("a", 2, INFO, Send(P, "y")),
        op("b", 1, OK, Send(P, "z", 2), Send(Q, "w", 0), Poll({P: [(0, "x")]}), transaction=True),
        op("b", 2, FAIL, Send(P, "v", 4), Poll({P: [(1, "y"), (2, "z")], Q: [(0, "w")]}), transaction=True),
        op("c", 1, INFO, Send(P, "u"), Send(Q, "u"), transaction=True),
        final(t0={0: "x", 1: "y", 2: "z", 6: "u"}, t1={0: "w", 2: "u"}),
    ]
    assert check(history) == []


def test_an_acknowledged_record_that_is_not_there_is_lost() -> None:
    assert kinds(op("a", 1, OK, Send(P, "x", 0)), final(t0={})) == {"lost-write"}


def test_a_record_at_another_offset_than_it_was_acknowledged_with_is_found() -> None:
    assert "inconsistent-offsets" in kinds(op("a", 1, OK, Send(P, "x", 0)), final(t0={1: "x"}))


def test_one_offset_with_two_values_is_found() -> None:
    history = [op("a", 1, OK, Send(P, "x", 0)), op("a", 2, INFO, Send(P, "y"))]
    history.append(op("b", 1, OK, Poll({P: [(0, "y")]})))
    assert "inconsistent-offsets" in kinds(*history, final(t0={0: "x", 1: "y"}))


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    assert kinds(op("a", 1, INFO, Send(P, "x")), final(t0={0: "x", 1: "x"})) == {"duplicate"}


def test_a_read_of_an_aborted_transaction_is_found() -> None:
    history = [op("a", 1, FAIL, Send(P, "x"), transaction=True), op("b", 1, OK, Poll({P: [(0, "x")]}))]
    assert kinds(*history, final(t0={})) == {"aborted-read"}


def test_a_transaction_that_reads_what_it_wrote_is_found() -> None:
    history = op("a", 1, OK, Send(P, "x", 0), Poll({P: [(0, "x")]}), transaction=True)
    assert kinds(history, final(t0={0: "x"})) == {"precommitted-read"}


def test_half_a_transaction_is_found() -> None:
    history = op("a", 1, INFO, Send(P, "x"), Send(Q, "y"), transaction=True)
    assert kinds(history, final(t0={0: "x"}, t1={})) == {"torn-transaction"}


def test_a_value_from_nowhere_is_found() -> None:
    assert kinds(final(t0={0: "x"})) == {"unexpected-read"}


@pytest.mark.parametrize(
    ("offsets", "kind"), [((0, 2), "poll-skip"), ((1, 0), "nonmonotonic-poll"), ((1, 1), "nonmonotonic-poll")]
)
def test_a_poll_that_skips_or_goes_back_is_found(offsets: tuple[int, int], kind: str) -> None:
    values = {0: "x", 1: "y", 2: "z"}
    history = [op("w", number, OK, Send(P, value, number)) for number, value in values.items()]
    history += [op("r", place, OK, Poll({P: [(at, values[at])]}), assignment=1) for place, at in enumerate(offsets)]
    assert kinds(*history, final(t0=values)) == {kind}


def test_a_poll_may_begin_elsewhere_after_another_assignment() -> None:
    values = {0: "x", 1: "y"}
    history = [op("w", number, OK, Send(P, value, number)) for number, value in values.items()]
    history += [op("r", at, OK, Poll({P: [(1 - at, values[1 - at])]}), assignment=at) for at in (0, 1)]
    assert check([*history, final(t0=values)]) == []


def test_acknowledgements_out_of_order_are_found() -> None:
    history = [op("a", 1, OK, Send(P, "x", 1)), op("a", 2, OK, Send(P, "y", 0))]
    assert kinds(*history, final(t0={0: "y", 1: "x"})) == {"nonmonotonic-send"}


def test_transactions_that_have_read_each_other_are_found() -> None:
    history = [
        op("a", 1, OK, Send(P, "x", 0), Poll({Q: [(0, "y")]}), transaction=True),
        op("b", 1, OK, Send(Q, "y", 0), Poll({P: [(0, "x")]}), transaction=True),
    ]
    assert kinds(*history, final(t0={0: "x"}, t1={0: "y"})) == {"circular-flow"}


@pytest.mark.parametrize(
    ("target", "kind"),
    [({}, "not-moved"), ({0: "x@1", 1: "x@2"}, "moved-twice"), ({0: "x@1", 1: "y@1"}, "moved-from-nowhere")],
)
def test_what_is_not_moved_exactly_once_is_found(target: dict[int, str], kind: str) -> None:
    history = [final(s0={0: "x"}), final(d0=target)]
    assert {anomaly.kind for anomaly in check_moved(history, "s", "d")} == {kind}


def test_an_operation_is_read_as_it_was_written() -> None:
    operation = op("a", 1, OK, Send(P, "x", 0), Poll({P: [(0, "y")]}), transaction=True, assignment=3)
    assert from_line(to_line(operation)) == operation


def test_the_last_line_of_an_operation_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    begun, ended = op("a", 1, INFO, Send(P, "x")), op("a", 1, OK, Send(P, "x", 7))
    file = tmp_path / "a.jsonl"
    file.write_text(f"{to_line(begun)}\n{to_line(ended)}\n{to_line(begun)[:20]}")
    assert read_history([file]) == [ended]
