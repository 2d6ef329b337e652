"""Prometheus' text format, line by line."""

from __future__ import annotations

from mainstem.broker.metrics.meters import Histogram, Meters
from mainstem.broker.metrics.text_format import counter, gauge, histogram


def test_a_family_says_what_it_is_and_lists_its_samples() -> None:
    assert counter("a_total", "What it is.", [({}, 3), ({"topic": "t", "partition": 0}, 2.5)]) == (
        '# HELP a_total What it is.\n# TYPE a_total counter\na_total 3\na_total{topic="t",partition="0"} 2.5\n'
    )
    assert gauge("b", "B.", []) == "# HELP b B.\n# TYPE b gauge\n"


def test_labels_are_escaped() -> None:
    assert gauge("b", "B.", [({"group": 'a"b\\c\nd'}, 1)]).splitlines()[-1] == 'b{group="a\\"b\\\\c\\nd"} 1'


def test_a_histogram_is_cumulative_and_a_bound_belongs_to_its_bucket() -> None:
    seconds = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        seconds.observe(value)
    assert histogram("s", "S.", [({"api": "Fetch"}, seconds)]).splitlines()[2:] == [
        's_bucket{api="Fetch",le="0.1"} 2',
        's_bucket{api="Fetch",le="1.0"} 3',
        's_bucket{api="Fetch",le="+Inf"} 4',
        's_sum{api="Fetch"} 7.65',
        's_count{api="Fetch"} 4',
    ]


def test_what_a_deleted_topic_counted_is_forgotten() -> None:
    meters = Meters()
    meters.appended_bytes["t"] += 5
    meters.forget("t")
    meters.forget("never there")
    assert dict(meters.appended_bytes) == {}


def test_a_failed_flush_is_counted_beside_its_time() -> None:
    meters = Meters()
    meters.flushed(0.5, failed=True)
    meters.flushed(0.5, failed=False)
    assert (meters.flush_failures, meters.flush_seconds.total) == (1, 1.0)
