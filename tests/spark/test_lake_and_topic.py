"""A topic's lake and its log as one DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import ConfigError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.lake.reading import read_lake
from mainstem.pipelines.app import App
from mainstem.pipelines.kinds import Lake
from mainstem.schema.topic_schemas import lookup
from mainstem.spark.lake_and_topic import table
from mainstem.views.feed.feed import Feed, end_of
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.lake.lake import LakeLimits, LakeStore
from mainstem.views.stores.store import StoreDefinition, no_dead_letters
from tests.gateway.served import listening_on, served
from tests.spark.flights_app import FLIGHT, Flights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Archive:
    """A lake of the world's flights, fed by hand."""

    def __init__(self, world: Flights, path: Path) -> None:
        self.world, self.topic, self.path = world, world.flights.name, path
        registered = lookup(world.log, self.topic)
        assert registered is not None
        self.definition = StoreDefinition("lake", Lake(), registered.schema)
        self.store = LakeStore(path, self.definition, LakeLimits(commit_s=0.0))

    def catch_up(self) -> None:
        """Commit what there is by now, as one file."""
        with WireClient(self.world.bootstrap) as client:
            end = end_of(client, self.topic)
            feed = Feed(client, self.topic, self.store.bookmark, end, columns=self.definition.reads)
            while not feed.is_at_end:
                if (step := feed.step(500)) is not None:
                    self.store.apply(step.arrow_batch, step.bookmark, no_dead_letters)
        self.store.commit()

    def table(self, **options: bool) -> DataFrame:
        return table(self.topic, lake=self.path, bootstrap=self.world.bootstrap, spark=self.world.spark, **options)

    def log(self, **options: str) -> DataFrame:
        """The same from the log alone."""
        read = self.world.spark.read.format("mainstem").option("kafka.bootstrap.servers", self.world.bootstrap)
        return read.option("subscribe", self.topic).options(**options).load()


@pytest.fixture
def archive(world: Flights, tmp_path: Path) -> Iterator[Archive]:
    world.fly(*[(carrier, n) for n in range(10) for carrier in ("UA", "AA")])
    made = Archive(world, tmp_path / "lake")
    yield made
    made.store.close()


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(row) for row in frame.collect())


def add_odd_records(log: Log, topic: str) -> None:
    """A tombstone, what is no JSON, what is no object, and what does not fit its column; headers."""
    for value in (None, b"not json", b"[1]", b'{"flight_id": "x", "carrier": "BB", "dep_delay": "late"}'):
        log.append(topic, value, key="odd", headers=[("h", b"1"), ("h", None)])


def test_both_halves_together_are_what_the_log_has(archive: Archive) -> None:
    add_odd_records(archive.world.log, archive.topic)
    archive.catch_up()
    archive.world.fly(("UA", 77))
    add_odd_records(archive.world.log, archive.topic)
    both, log = archive.table(), archive.log(valueSchema="registered", mode="DROPMALFORMED")
    assert both.schema == log.schema
    assert rows(both) == rows(log)
    both, log = archive.table(records=True), archive.log(includeHeaders="true")
    assert both.schema == log.schema
    assert rows(both) == rows(log)


def test_values_are_read_of_files_with_tombstones_alone(archive: Archive) -> None:
    archive.catch_up()
    add_odd_records(archive.world.log, archive.topic)
    archive.catch_up()
    assert [file.tombstones for file in read_lake(archive.path).files] == [0, 1]
    both = archive.table()
    assert rows(both) == rows(archive.log(valueSchema="registered", mode="DROPMALFORMED"))
    scans = [line for line in plan_of(both).splitlines() if "FileScan parquet" in line]
    assert ["_value#" in line for line in scans] == [False, True]


def test_files_whose_tombstones_were_not_counted_are_read_as_others(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_odd_records(archive.world.log, archive.topic)
    archive.catch_up()
    found = read_lake(archive.path)
    uncounted = replace(found, files=tuple(replace(file, tombstones=None) for file in found.files))
    monkeypatch.setattr("mainstem.lake.reading.read_lake", lambda _: uncounted)
    assert rows(archive.table()) == rows(archive.log(valueSchema="registered", mode="DROPMALFORMED"))


def plan_of(frame: DataFrame) -> str:
    """The physical plan."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_nothing_is_missed_or_seen_twice_while_the_lake_commits_and_merges(archive: Archive) -> None:
    archive.catch_up()
    frame = archive.table().select("flight_id", "_partition", "_offset")
    before = frame.count()
    for number in range(8):
        archive.world.fly(("UA", 100 + number))
        archive.catch_up()
    archive.store.settle()
    assert len(archive.store.statistics().files) == 1
    assert (before, frame.count(), frame.distinct().count()) == (20, 20, 20)  # as it was planned, of merged files too
    now = archive.table().select("_partition", "_offset")
    assert (now.count(), now.distinct().count()) == (28, 28)


@contextmanager
def gateway_of(host: ViewHost, log: Log, directory: Path) -> Iterator[str]:
    """A gateway over this host, in this process; its address."""
    with listening_on(create_host_app(host), listen_unix(directory / "s")):
        with served(create_app(log, ForwardingBackend([directory / "s"]), GatewayLimits())) as client:
            yield str(client.base_url).rstrip("/")


def test_without_a_directory_the_gateway_says_where_the_lake_of_a_topic_is(archive: Archive, tmp_path: Path) -> None:
    world = archive.world
    app = App("archives")
    app.view("flights-lake", app.topic(archive.topic, FLIGHT, key="flight_id"), Lake())
    views = tuple(app.views.values())
    with ViewHost(views, world.bootstrap, tmp_path / "views") as host:  # it commits when it ends
        host.query("flights-lake", SqlQuery("SELECT 1"), ReadOptions(at_least=world.log.end(archive.topic)))
    world.fly(("UA", 77))
    with ViewHost(views, world.bootstrap, tmp_path / "views") as host, gateway_of(host, world.log, tmp_path) as gateway:
        found = table(archive.topic, gateway=gateway, bootstrap=world.bootstrap, spark=world.spark)
        assert found.count() == 21
        with pytest.raises(ConfigError, match="has no Lake view of topic"):
            table(world.airlines.name, gateway=gateway, bootstrap=world.bootstrap, spark=world.spark)


def test_a_lake_of_another_topic_or_of_another_life_of_it_is_refused(archive: Archive) -> None:
    archive.catch_up()
    bootstrap, spark = archive.world.bootstrap, archive.world.spark
    with pytest.raises(ConfigError, match="is of topic"):
        table(archive.world.airlines.name, lake=archive.path, bootstrap=bootstrap, spark=spark)
    archive.world.log.delete_topic(archive.topic)
    archive.world.log.create_topic(archive.topic, partitions=1)
    with pytest.raises(ConfigError, match="recreated"):
        archive.table()


def test_spark_reads_the_files_without_a_jar(archive: Archive, spark: SparkSession) -> None:
    archive.catch_up()
    paths = [str(file.path) for file in archive.store.statistics().files]
    assert spark.read.parquet(*paths).where("carrier = 'UA'").count() == 10
