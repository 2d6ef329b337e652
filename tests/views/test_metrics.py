"""Metrics views: what they count, that it is exact, and that the snapshot file is whole."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstem.errors import DefinitionError, QueryError, StorageError
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.kinds import Metrics
from mainstem.testing import ManualClock
from mainstem.views.requests import MetricsPageQuery, MetricsQuery
from mainstem.views.stores.metrics.metrics import OTHER, MetricsStore
from mainstem.views.stores.store import Bookmark, StoreDefinition, no_dead_letters
from tests.views import killed_metrics
from tests.views.forked import forked
from tests.views.killed_metrics import KIND as KILLED_KIND
from tests.views.killed_metrics import STEP
from tests.views.support import TOPIC, apply, arrow_batch, tombstone

DELAYS = Metrics(by=("carrier",), values=("delay",), buckets=(0, 10, 100))


def opened(path: Path, kind: Metrics = DELAYS, clock: ManualClock | None = None) -> MetricsStore:
    return MetricsStore(path, StoreDefinition("delays", kind), clock)


def record(carrier: Any, delay: Any = None, **more: Any) -> tuple[bytes | None, bytes]:
    return None, json.dumps({"carrier": carrier, "delay": delay, **more}).encode()


def apply_at(store: MetricsStore, minutes: list[int]) -> None:
    """Records of one label, with these minutes as their times."""
    batch = arrow_batch([record("UA")] * len(minutes))
    times = pa.array([minute * 60_000_000 for minute in minutes], batch.schema.field("timestamp").type)
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times)
    store.apply(batch, Bookmark(Position.of(TOPIC, 0, 1)), no_dead_letters)


def test_records_and_numbers_are_counted_by_label(tmp_path: Path) -> None:
    store = opened(tmp_path)
    apply(
        store, [record("UA", 5), record("UA", -3.5), record("AA", 200), record("UA"), record(None, 1), tombstone("x")]
    )
    rows = store.query(MetricsQuery()).rows
    assert [(row["labels"], row["records"]) for row in rows] == [
        ({"carrier": ""}, 1),
        ({"carrier": "AA"}, 1),
        ({"carrier": "UA"}, 3),
    ]
    assert rows[2]["values"] == {"delay": {"count": 2, "sum": 1.5, "mean": 0.75, "min": -3.5, "max": 5.0}}


def test_labels_are_chosen_and_summed_over(tmp_path: Path) -> None:
    store = opened(tmp_path, Metrics(by=("carrier", "origin"), values=("delay",)))
    apply(store, [record("UA", 1, origin="A"), record("UA", 2, origin="B"), record("AA", 4, origin="A")])
    [row] = store.query(MetricsQuery(over=())).rows
    assert (row["labels"], row["records"], row["values"]["delay"]["sum"]) == ({}, 3, 7.0)
    [row] = store.query(MetricsQuery(labels=("carrier=UA",), over=("carrier",))).rows
    assert (row["labels"], row["records"]) == ({"carrier": "UA"}, 2)
    for wrong in (MetricsQuery(over=("dest",)), MetricsQuery(labels=("dest=A",)), MetricsQuery(limit=2)):
        with pytest.raises(QueryError, match=r"its labels are: carrier, origin|over the limit of 2"):
            store.query(wrong)


def test_a_histogram_s_bound_belongs_to_its_bucket_and_quantiles_lie_within_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    apply(store, [record("UA", delay) for delay in (-5, 0, 1, 10, 11, 500)])
    [row] = store.query(MetricsQuery(buckets=True, quantiles=(0, 0.5, 1))).rows
    delay = row["values"]["delay"]
    assert [(bucket["le"], bucket["count"]) for bucket in delay["buckets"]] == [(0, 2), (10, 4), (100, 5), (None, 6)]
    assert delay["quantiles"] == {"0": -5.0, "0.5": 5.0, "1": 500.0}


def test_quantiles_of_numbers_at_the_ends_of_the_doubles_are_numbers(tmp_path: Path) -> None:
    store = opened(tmp_path, Metrics(by=(), values=("delay",), buckets=(1e308,)))
    apply(store, [record("UA", delay) for delay in (-1.7e308, 1.7e308, 1e308)])
    [row] = store.query(MetricsQuery(quantiles=(0, 0.2, 0.5, 1))).rows
    quantiles = list(row["values"]["delay"]["quantiles"].values())
    assert quantiles == sorted(quantiles)
    assert (quantiles[0], quantiles[-1]) == (-1.7e308, 1.7e308)
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_exact_whatever_the_numbers_and_their_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    numbers = [chance.choice((-1, 1)) * math.ldexp(chance.random(), chance.randrange(-1080, 1000)) for _ in range(300)]
    numbers += [1e16, 1.0, -1e16, 5e-324, -5e-324, 0.1, 0.2]
    orders = [numbers, sorted(numbers), chance.sample(numbers, len(numbers))]
    digests = set()
    for number, order in enumerate(orders):
        store = opened(tmp_path / str(number))
        first = 0
        while first < len(order):
            part = order[first : first + chance.randrange(1, 200)]
            apply(store, [record("UA", delay) for delay in part], first)
            first += len(part)
        [row] = store.query(MetricsQuery()).rows
        assert row["values"]["delay"]["sum"] == math.fsum(numbers)
        digests.add(store.digest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("delays", "exact"),
    [
        ([5, -3.5], "1.5"),
        ([0.1, 0.2], "0.30000000000000004 + -2.7755575615628914e-17"),
        ([0.1, -0.1], "0.0"),
        ([1e308, 1.0, -1e308], "1.0"),
        ([5e-324, 1], "1.0 + 5e-324"),
        ([1e308, 1e308], f"{2 * int(1e308)}"),
        ([1.7e308, 1e308, 0.5], f"{int(1.7e308) + int(1e308)} + 0.5"),
    ],
)
def test_an_exact_sum_reads_as_the_doubles_that_add_up_to_it(tmp_path: Path, delays: list[float], exact: str) -> None:
    store = opened(tmp_path)
    apply(store, [record("UA", delay) for delay in delays])
    with store.snapshot() as snapshot:
        [(name, row)] = snapshot.entries()
    assert (name, row["exact_sums"]) == ('["UA"]', {"delay": exact})


def test_what_is_no_number_is_poison_and_what_is_not_finite_counts_as_none(tmp_path: Path) -> None:
    store = opened(tmp_path)
    poisons = apply(
        store, [record("UA", "late"), record("UA", float("nan")), record("UA", float("inf")), record("UA", 1)]
    )
    assert [poison.offset for poison in poisons] == [0]
    [row] = store.query(MetricsQuery()).rows
    assert (row["records"], row["values"]["delay"]["count"]) == (3, 1)


@pytest.mark.parametrize("seed", range(3))
def test_too_many_labels_are_counted_together_whatever_their_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kind = Metrics(by=("carrier",), values=("delay",), labels_max=5, minutes=3)
    records = [record(chance.choice("ABCDEFGHIJ"), chance.random()) for _ in range(60)]
    whole, cut = opened(tmp_path / "whole", kind), opened(tmp_path / "cut", kind)
    apply(whole, records)
    for number, each in enumerate(chance.sample(records, len(records))):
        apply(cut, [each], number)
    assert cut.digest() == whole.digest()
    rows = whole.query(MetricsQuery()).rows
    assert [row["labels"]["carrier"] for row in rows] == [*"ABCDE", OTHER]
    assert sum(row["records"] for row in rows) == 60


def test_the_rate_is_kept_for_the_latest_minutes_that_have_records(tmp_path: Path) -> None:
    store = opened(tmp_path, Metrics(by=(), minutes=3))
    for minutes in ([10, 11, 11], [12], [9, 13, 13], [10], [1_000_000], [13]):
        apply_at(store, minutes)
    [row] = store.query(MetricsQuery(series=True)).rows
    assert [(each["minute"][11:16], each["records"]) for each in row["series"]] == [
        ("00:12", 1),
        ("00:13", 3),
        ("10:40", 1),
    ]
    assert row["records"] == 10


def test_a_snapshot_file_is_written_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    clock = ManualClock()
    store = opened(tmp_path, clock=clock)
    apply(store, [record("UA", 1)])
    store.settle()
    assert opened(tmp_path).position == Position()
    clock.advance(60)
    store.settle()
    apply(store, [record("UA", 2)], 1)
    assert opened(tmp_path).position == Position.of(TOPIC, 0, 1)
    store.close()
    assert opened(tmp_path).digest() == store.digest()


def test_a_killed_store_is_whole_and_has_lost_no_more_than_its_tail(tmp_path: Path) -> None:
    for steps in (1, 3, 6):
        with forked(killed_metrics.main, str(tmp_path)) as process:
            for _ in range(steps):
                assert process.stdout.readline()
        store = opened(tmp_path, KILLED_KIND)
        [row] = store.query(MetricsQuery(over=())).rows
        assert Position.of(TOPIC, 0, row["records"]) == store.position
        assert row["records"] >= steps * STEP
        (tmp_path / "metrics.json").unlink()


def test_a_damaged_snapshot_file_asks_for_a_rebuild(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"format": 1, "bookmark": ')
    with pytest.raises(StorageError, match=r"metrics\.json .* rebuild the view"):
        opened(tmp_path)


# ---- Prometheus' text format, by its published grammar

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
_LINE = re.compile(rf"({_NAME})(?:\{{((?:{_LABEL})(?:,{_LABEL})*)\}})? (\S+)")


def samples(text: str) -> dict[str, float]:
    """Every sample, each line checked against the grammar; families stand together, after their HELP and TYPE."""
    assert text.endswith("\n")
    found: dict[str, float] = {}
    family, kinds = "", {}
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            word, family, rest = line[2:].split(" ", 2)
            assert word in ("HELP", "TYPE")
            if word == "TYPE":
                assert family not in kinds
                kinds[family] = rest
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        own = [family] if kinds[family] == "counter" else [f"{family}_{end}" for end in ("bucket", "sum", "count")]
        assert match[1] in own
        name = match[1] + (f"{{{match[2]}}}" if match[2] else "")
        assert name not in found
        found[name] = float(match[3])
    return found


def test_the_page_is_prometheus_text(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path, StoreDefinition("flight-delays", DELAYS))
    apply(store, [record('a"b\\c\nd', 5), record("é", 1e300), record("é", 0.5), record("", 7), tombstone("x")])
    found = samples(store.query(MetricsPageQuery()).rows[0]["text"])
    assert found['flight_delays_records_total{carrier="a\\"b\\\\c\\nd"}'] == 1
    assert found["flight_delays_records_total"] == 1  # an empty label is none
    assert found["flight_delays_tombstones_total"] == 1
    assert found['flight_delays_delay_bucket{carrier="é",le="10.0"}'] == 1
    assert found['flight_delays_delay_bucket{carrier="é",le="+Inf"}'] == 2
    assert found['flight_delays_delay_sum{carrier="é"}'] == 1e300
    assert found['flight_delays_delay_count{carrier="é"}'] == 2


FAULTS = {
    "rising": Metrics(buckets=(2, 1)),
    "upper bounds": Metrics(buckets=()),
    "minutes=": Metrics(minutes=-1),
    "labels_max=": Metrics(labels_max=0),
    "'le'": Metrics(by=("le",)),
    "label 'a-b'": Metrics(by=("a-b", "a_b")),
    "value 'x_sum'": Metrics(values=("x", "x_sum")),
    "a label and a value": Metrics(by="x", values="x"),
}


@pytest.mark.parametrize("named", FAULTS)
def test_a_definition_that_cannot_work_is_refused(named: str) -> None:
    app = App("flights")
    with pytest.raises(DefinitionError, match=re.escape(named)):
        app.view("delays", app.topic("flights", key="id"), FAULTS[named])
