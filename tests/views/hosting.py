"""What the tests of the host share: an App over topics of its own, its views, and what Spark would write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.model import OnDamaged, Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Kind, Lake, Metrics, Search
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mainstem.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mainstem.views.host.host import ViewHost
from mainstem.views.requests import GetQuery, MetricsQuery, NeighborsQuery, RangeQuery, SearchQuery, SqlQuery
from tests.views.support import flown

DDL = "origin STRING, dest STRING, miles INT"
KINDS: Mapping[str, Kind] = {
    "kv": KeyValue(),
    "sql": SQL(),
    "search": Search("origin", "dest"),
    "graph": Graph(source="origin", target="dest"),
    "fold": KeyValue(fold=flown, initial={"flights": 0}),
    "lake": Lake(),
    "metrics": Metrics(by=("origin", "dest"), values=("miles",)),
}
REQUESTS: Mapping[str, Any] = {
    "kv": RangeQuery(),
    "sql": SqlQuery("SELECT * FROM sql"),
    "search": SearchQuery("*"),
    "graph": NeighborsQuery("A", 16, "both"),
    "fold": RangeQuery(),
    "lake": SqlQuery("SELECT _offset FROM lake"),
    "metrics": MetricsQuery(),
}
EVERY_KIND = tuple(KINDS)
GET = GetQuery("1")
_NUMBERS = itertools.count(1)


class Setting:
    """An App with one topic ``flights-N`` and views of it, deployed on a log; and where its host keeps them."""

    def __init__(
        self,
        log: Log,
        directory: Path,
        kinds: tuple[str, ...] = ("kv",),
        *,
        partitions: int = 1,
        on_damaged: OnDamaged = "stop",
    ) -> None:
        number = next(_NUMBERS)
        self.log = log
        self.directory = directory
        self.app = App(f"app-{number}")
        self.topic = f"flights-{number}"
        topic = self.app.topic(self.topic, DDL, partitions=partitions)
        for name in kinds:
            self.app.view(name, topic, KINDS[name], on_damaged=on_damaged)
        deploy(self.app, log)

    @contextmanager
    def host(self, **options: Any) -> Iterator[ViewHost]:
        """The host of the App's views, started, with more options of ViewHost."""
        views = tuple(self.app.views.values())
        pipelines = self.app.pipelines.values()
        with ViewHost(views, self.log.bootstrap, self.directory, pipelines=pipelines, **options) as host:
            yield host

    def append(self, key: str | None, origin: str = "A", dest: str = "B", miles: int = 1) -> Position:
        """Append one flight."""
        return self.log.append(self.topic, {"origin": origin, "dest": dest, "miles": miles}, key=key)

    def report(self, source: Position, sink: Position, output: str) -> None:
        """Write the progress of the pipeline into ``output``, as its driver does."""
        progress = Progress(f"derive-{output}", 0, source, sink, Position(), (self.topic,), (output,))
        key, value = progress.to_record()
        self.log.append(PROGRESS_TOPIC, value, key=key)

    def remove_records_before(self, offset: int) -> None:
        """Let the log forget the records of partition 0 before ``offset``, as retention does."""
        topic = DeleteRecordsTopic(
            name=self.topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
        )
        with WireClient(self.log.bootstrap) as client:
            [answered] = client.request(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)).topics
        assert answered.partitions[0].error_code == 0

    def add_partitions(self, count: int) -> None:
        """Give the topic more partitions, ``count`` in all."""
        topic = CreatePartitionsTopic(name=self.topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        with WireClient(self.log.bootstrap) as client:
            [answered] = client.request(request).results
        assert answered.error_code == 0
