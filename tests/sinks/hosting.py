"""What the tests of a sink's host share: an App with one sink, deployed on a log, and the fold of its topic."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import SinkKind
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import RangeQuery
from tests.sinks.databases import SinkDatabase

DDL = "id BIGINT, name STRING"
_NUMBERS = itertools.count(1)


class SinkSetting:
    """An App with a topic ``orders-N`` and the sink ``orders`` of it."""

    def __init__(
        self,
        log: Log,
        directory: Path,
        database: SinkDatabase,
        *,
        ddl: str = DDL,
        topic: str | None = None,
        sink: SinkKind | None = None,
    ) -> None:
        self.log = log
        self.directory = directory
        self.database = database
        self.topic = topic or f"orders-{next(_NUMBERS)}"
        self.app = App("shop")
        declared = self.app.topic(self.topic, ddl, key="id", partitions=2)
        self.view = self.app.sink(declared, sink or database.sink())
        deploy(self.app, log)

    @contextmanager
    def host(self) -> Iterator[ViewHost]:
        """The host of the App's views, started."""
        with ViewHost(tuple(self.app.views.values()), self.log.bootstrap, self.directory) as host:
            yield host

    def append(self, number: int, name: str | None = "a", **more: Any) -> Position:
        """Append a row, or its deletion."""
        value = None if name is None else {"id": number, "name": name, **more}
        return self.log.append(self.topic, value, key=str(number))

    def reached(self, host: ViewHost, position: Position) -> None:
        """Wait until the sink covers a position."""
        host.query("orders", RangeQuery(limit=1), ReadOptions(at_least=position, timeout_s=60))

    def fold(self) -> list[tuple[int, str]]:
        """The rows that the topic makes."""
        rows: dict[int, str] = {}
        for record in self.log.read(self.topic, every_partition=True):
            number = int(record.key or b"")
            rows.pop(number, None)
            if record.value is not None:
                rows[number] = json.loads(record.value)["name"]
        return sorted(rows.items())

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the table."""
        return self.database.execute("SELECT id, name FROM orders ORDER BY id")
