"""Goals are judged by the medians, and only on a machine with little else to do."""

from __future__ import annotations

from benchmarks.report import LOAD_MAX, Comparison, Goal, judgement, machine_load

GOALS = (Goal("rate", "records/s", 2.0), Goal("time", "ms", 0.5, at_most=True), Goal("shown", "MB"))


def compared(load: float) -> Comparison:
    comparison = Comparison(GOALS, "Peer", load)
    for ours, theirs in ((10.0, 4.0), (30.0, 5.0), (11.0, 5.0)):
        comparison.add("Mainstem", "", {"rate": ours, "time": ours, "shown": ours})
        comparison.add("Peer", "", {"rate": theirs, "time": theirs, "shown": theirs})
    return comparison


def test_a_goal_is_judged_by_the_ratio_of_the_medians() -> None:
    rate, time, shown = compared(0.1).rows()
    assert (rate["ratio"], rate["met"]) == (2.2, True)
    assert (time["ratio"], time["met"]) == (2.2, False)
    assert shown["met"] is None
    assert rate["mainstem"] == {"median": 11.0, "least": 10.0, "greatest": 30.0}


def test_no_goal_is_judged_on_a_busy_machine() -> None:
    busy = compared(LOAD_MAX + 0.1)
    assert [row["met"] for row in busy.rows()] == [None, None, None]
    assert "no goal is judged" in busy.to_text()
    assert busy.to_text().count("| not judged |") == 2
    assert "no goal is judged" not in compared(LOAD_MAX).to_text()
    assert [judgement(is_met=True, load=load) for load in (0.0, LOAD_MAX + 0.1)] == ["met", "not judged"]


def test_the_load_of_the_machine_is_a_share() -> None:
    assert 0 <= machine_load() <= 1
