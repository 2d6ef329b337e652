from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstem.errors import PositionError
from mainstem.model import Position
from mainstem.pipelines.progress import Progress
from mainstem.views.feed.coverage import Coverage, Hop


def hop(pipeline: str, output: str, *streams: str, tables: tuple[str, ...] = ()) -> Hop:
    return Hop(pipeline, frozenset(streams), frozenset(tables), frozenset(output.split()))


def progress(pipeline: str, source: str, sink: str, *, inputs: str = "in", output: str = "out") -> Progress:
    return Progress(
        pipeline,
        0,
        Position.parse(source),
        Position.parse(sink),
        Position(),
        tuple(inputs.split()),
        tuple(output.split()),
    )


def at(text: str) -> Position:
    return Position.parse(text)


def test_a_view_covers_its_own_position() -> None:
    assert Coverage().covers("in", at("in/0:7")) == at("in/0:7")
    wait = Coverage().wait("in", at("in/0:7,in/1:2"))
    assert not wait.is_reached(at("in/0:7,in/1:1"))
    assert wait.is_reached(at("in/0:9,in/1:2"))


def test_a_derived_view_covers_the_source_once_it_has_applied_the_sink() -> None:
    coverage = Coverage([hop("p", "out", "in")])
    wait = coverage.wait("out", at("in/0:5"))
    assert not wait.is_reached(at("out/0:99"))
    coverage.add(progress("p", "in/0:4", "out/0:2"))
    assert not wait.is_reached(at("out/0:99"))
    coverage.add(progress("p", "in/0:6", "out/0:3"))
    assert not wait.is_reached(at("out/0:2"))
    assert wait.is_reached(at("out/0:3"))
    assert coverage.covers("out", at("out/0:3")) == at("in/0:6,out/0:3")
    assert coverage.covers("out", at("out/0:2")) == at("in/0:4,out/0:2")


def test_a_micro_batch_that_derived_nothing_moves_the_coverage() -> None:
    coverage = Coverage()
    coverage.add(progress("p", "in/0:4", "out/0:2"))
    wait = coverage.wait("out", at("in/0:5"))
    assert not wait.is_reached(at("out/0:2"))
    coverage.add(progress("p", "in/0:5", "out/0:2"))
    assert wait.is_reached(at("out/0:2"))


def test_load_cannot_move_the_target_away() -> None:
    coverage = Coverage()
    coverage.add(progress("p", "in/0:5", "out/0:3"))
    wait = coverage.wait("out", at("in/0:5"))
    assert not wait.is_reached(at("out/0:1"))
    for number in range(6, 5_000):
        coverage.add(progress("p", f"in/0:{number}", f"out/0:{number * 10}"))
    assert wait.is_reached(at("out/0:3"))


def test_a_wait_that_begins_under_load_takes_the_first_progress_that_covers() -> None:
    coverage = Coverage()
    for number in range(100):
        coverage.add(progress("p", f"in/0:{number}", f"out/0:{number * 10}"))
    assert coverage.wait("out", at("in/0:7")).is_reached(at("out/0:70"))
    assert not coverage.wait("out", at("in/0:7")).is_reached(at("out/0:69"))


def test_coverage_goes_over_several_pipelines() -> None:
    coverage = Coverage([hop("p", "mid", "in"), hop("q", "out", "mid")])
    wait = coverage.wait("out", at("in/0:5"))
    coverage.add(progress("q", "mid/0:99", "out/0:1", inputs="mid"))
    assert not wait.is_reached(at("out/0:1"))
    coverage.add(progress("p", "in/0:5", "mid/0:100", output="mid"))
    assert not wait.is_reached(at("out/0:1"))
    coverage.add(progress("q", "mid/0:100", "out/0:2", inputs="mid"))
    assert wait.is_reached(at("out/0:2"))
    assert coverage.covers("out", at("out/0:2")) == at("in/0:5,mid/0:100,out/0:2")
    assert coverage.covers("out", at("out/0:1")) == at("mid/0:99,out/0:1")


def test_a_pipeline_without_progress_is_not_waited_for_when_nothing_was_written_for_it() -> None:
    coverage = Coverage([hop("p", "mid", "in"), hop("q", "out", "mid")])
    coverage.add(progress("p", "in/0:5", "mid/0:0", output="mid"))
    assert coverage.covers("out", at("out/0:0")).covers(at("in/0:5"))
    assert coverage.wait("out", at("in/0:5")).is_reached(at(""))
    assert not coverage.wait("out", at("in/0:6")).is_reached(at("out/0:9"))
    coverage.add(progress("p", "in/0:6", "mid/0:1", output="mid"))
    assert not coverage.wait("out", at("in/0:6")).is_reached(at("out/0:9"))


def test_a_wait_names_the_pipelines_that_it_waits_for() -> None:
    coverage = Coverage([hop("p", "mid", "in"), hop("q", "out", "mid"), hop("aside", "out", "other")])
    wait = coverage.wait("out", at("in/0:5"))
    assert not wait.is_reached(at(""))
    assert wait.waits_for() == {"p", "q"}
    coverage.add(progress("p", "in/0:5", "mid/0:3", output="mid"))
    assert not wait.is_reached(at(""))
    assert wait.waits_for() == {"q"}
    coverage.add(progress("q", "mid/0:3", "out/0:2", inputs="mid"))
    assert not wait.is_reached(at(""))
    assert wait.waits_for() == frozenset()


def test_where_several_paths_lead_to_the_view_all_have_to_cover() -> None:
    coverage = Coverage([hop("slow", "mid", "in"), hop("join", "out", "in", "mid")])
    wait = coverage.wait("out", at("in/0:5"))
    coverage.add(progress("slow", "in/0:3", "mid/0:30", output="mid"))
    coverage.add(progress("join", "in/0:9,mid/0:30", "out/0:1", inputs="in mid"))
    assert not wait.is_reached(at("out/0:1"))
    assert coverage.covers("out", at("out/0:1"))[next(iter(at("in/0:1")))] == 3
    coverage.add(progress("slow", "in/0:5", "mid/0:50", output="mid"))
    coverage.add(progress("join", "in/0:9,mid/0:50", "out/0:2", inputs="in mid"))
    assert wait.is_reached(at("out/0:2"))


def test_two_pipelines_into_one_topic_both_have_to_cover() -> None:
    coverage = Coverage([hop("p", "out", "in"), hop("q", "out", "in")])
    wait = coverage.wait("out", at("in/0:1"))
    coverage.add(progress("p", "in/0:1", "out/0:1"))
    assert not wait.is_reached(at("out/0:9"))
    assert coverage.covers("out", at("out/0:9")) == at("out/0:9")
    coverage.add(progress("q", "in/0:1", "out/0:2"))
    assert wait.is_reached(at("out/0:2"))


def test_a_pipeline_into_several_topics_covers_by_each_of_them() -> None:
    coverage = Coverage([hop("p", "left right", "in")])
    coverage.add(progress("p", "in/0:5", "left/0:3,right/0:8", output="left right"))
    assert coverage.wait("left", at("in/0:5")).is_reached(at("left/0:3"))
    assert not coverage.wait("right", at("in/0:5")).is_reached(at("right/0:3"))
    assert coverage.covers("right", at("right/0:8")) == at("in/0:5,right/0:8")
    assert coverage.covers("left", at("left/0:2")) == at("left/0:2")


def test_every_partition_that_is_named_has_to_be_covered() -> None:
    coverage = Coverage()
    coverage.add(progress("p", "in/0:5", "out/0:1"))
    assert not coverage.wait("out", at("in/0:5,in/1:1")).is_reached(at("out/0:1"))


def test_a_position_may_name_the_view_s_topic_and_a_source_together() -> None:
    coverage = Coverage()
    coverage.add(progress("p", "in/0:5", "out/0:1"))
    wait = coverage.wait("out", at("in/0:5,out/0:4"))
    assert not wait.is_reached(at("out/0:3"))
    assert wait.is_reached(at("out/0:4"))


def test_a_topic_that_is_not_upstream_is_refused_at_once() -> None:
    coverage = Coverage([hop("p", "out", "in")])
    with pytest.raises(PositionError, match="names other, which is not upstream of out"):
        coverage.wait("out", at("other/0:1"))
    with pytest.raises(PositionError, match="not upstream"):
        coverage.wait("in", at("out/0:1"))


def test_a_topic_that_comes_in_only_as_a_table_is_refused_by_the_pipeline_s_name() -> None:
    coverage = Coverage([hop("enrich", "mid", "in", tables=("planes",)), hop("q", "out", "mid")])
    with pytest.raises(PositionError, match="only as a table of pipeline enrich"):
        coverage.wait("out", at("planes/0:1"))


def test_a_topic_that_comes_in_as_a_stream_too_is_waited_for_there() -> None:
    coverage = Coverage([hop("p", "out", "in", tables=("planes",)), hop("q", "out", "planes")])
    coverage.add(progress("q", "planes/0:1", "out/0:1", inputs="planes"))
    assert coverage.wait("out", at("planes/0:1")).is_reached(at("out/0:1"))


def test_progress_that_goes_back_is_a_fresh_start_and_covers_only_what_it_says() -> None:
    coverage = Coverage()
    coverage.add(progress("p", "in/0:9", "out/0:5"))
    coverage.add(progress("p", "in/0:0", "out/0:5"))
    assert not coverage.wait("out", at("in/0:9")).is_reached(at("out/0:5"))
    coverage.add(progress("p", "in/0:9", "out/0:8"))
    assert coverage.wait("out", at("in/0:9")).is_reached(at("out/0:8"))


def test_a_dropped_pipeline_is_no_path_any_more() -> None:
    coverage = Coverage([hop("p", "out", "in")])
    coverage.add(progress("old", "in/0:1", "out/0:1"))
    coverage.add(progress("p", "in/0:9", "out/0:9"))
    assert not coverage.wait("out", at("in/0:9")).is_reached(at("out/0:9"))
    coverage.drop("old")
    assert coverage.wait("out", at("in/0:9")).is_reached(at("out/0:9"))


def test_a_circle_of_pipelines_ends() -> None:
    coverage = Coverage([hop("p", "out", "in", "back"), hop("q", "back", "out")])
    coverage.add(progress("q", "out/0:0", "back/0:0", inputs="out", output="back"))
    coverage.add(progress("p", "in/0:3,back/0:0", "out/0:3", inputs="in back"))
    assert coverage.wait("out", at("in/0:3")).is_reached(at("out/0:3"))
    assert coverage.covers("out", at("out/0:3")).covers(at("out/0:3"))


# ---- waiting and covering agree, over any graph: topics 0..5, a pipeline may read only topics with lower numbers

PIPELINES = st.lists(
    st.tuples(st.integers(1, 5), st.sets(st.integers(0, 4), min_size=1, max_size=3)), min_size=1, max_size=5
)
STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), max_size=25)


@settings(max_examples=300, deadline=None)
@example([(1, {0}), (2, {1})], [(0, 1, 0)], 2, 0, 0)
@given(PIPELINES, STEPS, st.integers(0, 5), st.integers(0, 6), st.integers(0, 12))
def test_what_a_wait_has_reached_is_covered(
    pipelines: list[tuple[int, set[int]]], steps: list[tuple[int, int, int]], view: int, source: int, offset: int
) -> None:
    hops = [hop(f"p{n}", f"t{out}", *(f"t{i}" for i in ins if i < out)) for n, (out, ins) in enumerate(pipelines)]
    coverage = Coverage(hops)
    reached = {f"p{n}": (dict.fromkeys(h.streams, 0), 0) for n, h in enumerate(hops)}
    for which, read, wrote in steps:
        chosen = hops[which % len(hops)]
        sources, sink = reached[chosen.pipeline]
        sources = {name: before + read for name, before in sources.items()}
        reached[chosen.pipeline] = (sources, sink + wrote)
        source_position = Position.join(Position.of(name, 0, end) for name, end in sources.items())
        sink_position = Position.join(Position.of(name, 0, sink + wrote) for name in chosen.outputs)
        coverage.add(
            Progress(chosen.pipeline, 0, source_position, sink_position, Position(), (*sources,), (*chosen.outputs,))
        )
    position, wanted = Position.of(f"t{view}", 0, offset), Position.of(f"t{source % 6}", 0, 1 + offset // 3)
    try:
        wait = coverage.wait(f"t{view}", wanted)
    except PositionError:
        return
    assert wait.is_reached(position) == coverage.covers(f"t{view}", position).covers(wanted)
