"""The demo's steps, in order, each timed. What the user sees of them is ``report``'s business.

Spark takes longest to start, so its driver starts first and the files load meanwhile. That the pipelines and views are
done is asked of the views themselves: each waits until it covers the position after the last flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mainstem.cli.demo import data
from mainstem.cli.demo.questions import QUESTIONS
from mainstem.cli.demo.report import DemoReport
from mainstem.cli.options import DEFAULT_HTTP, DEFAULT_LISTEN
from mainstem.client.http.http import JsonHttp
from mainstem.client.http.views import Views, views
from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.connectors.files import load
from mainstem.connectors.loads import LoadOptions
from mainstem.errors import PositionTimeoutError, UnavailableError
from mainstem.model import Position
from mainstem.node.stack import Stack, settled_or_free
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.load import load_app

# Few shuffle partitions, few keys: the demo's machine is small.
MASTER = "local[*]"
VERIFIED = ("carriers", "flights")
_CATCH_UP_S_MAX = 600.0
_LOOK_EVERY_S = 1.0
_NEW_FLIGHT: dict[str, Any] = {
    "flight_id": "UA-9001-2013-12-31T23:00:00Z",
    "year": 2013,
    "month": 12,
    "day": 31,
    "dep_time": 1812,
    "sched_dep_time": 1800,
    "dep_delay": 12,
    "arr_time": 2105,
    "sched_arr_time": 2100,
    "arr_delay": 5,
    "carrier": "UA",
    "flight": 9001,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 210,
    "distance": 1400,
    "hour": 18,
    "minute": 0,
    "time_hour": "2013-12-31T23:00:00Z",
}


@dataclass
class Results:
    """The results of the demo: the JSON document that it prints."""

    topics: dict[str, int] = field(default_factory=dict)
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    read_your_writes: dict[str, Any] = field(default_factory=dict)
    verify: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """One object."""
        return {
            "topics": self.topics,
            "answers": self.answers,
            "read_your_writes": self.read_your_writes,
            "verify": self.verify,
            "seconds": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
        }


class Demo:
    """One run over a stack whose directory is empty. Used by one thread."""

    def __init__(self, stack: Stack, report: DemoReport, clock: Clock | None = None) -> None:
        self.results = Results()
        self.url = ""
        self._stack = stack
        self._report = report
        self._clock = clock or SystemClock()
        self._loaded = Position()

    def run(self) -> None:
        """All steps."""
        program = data.program()
        started_s = self._clock.monotonic_s()
        with self._step("start"):
            app = load_app(program)
            bootstrap = self._start(app)
        with Log(bootstrap) as log:
            with self._step("load"):
                self._load(log)
            with self._step("spark"):
                self._wait_for_the_rest()
            with self._step("pipelines"):
                self._catch_up()
        asked = views(self.url)
        with self._step("questions"):
            self._ask(asked)
        with self._step("read_your_writes"):
            self._read_your_writes(asked)
        with self._step("verify"):
            self._verify(asked)
        asked.close()
        self.results.seconds["total"] = self._clock.monotonic_s() - started_s

    def _start(self, app: App) -> str:
        """The log first; everything else starts while the files load."""
        program = data.program()
        bootstrap = self._stack.start_log(settled_or_free(DEFAULT_LISTEN))
        with Log(bootstrap) as log:
            deploy(app, log)
        self._stack.launch_pipelines(program, app.name, bootstrap, MASTER)
        self._stack.launch_views(program, bootstrap)
        self.url = f"http://{self._stack.launch_gateway(bootstrap, settled_or_free(DEFAULT_HTTP), views=True)}"
        self._report.started(bootstrap)
        return bootstrap

    def _load(self, log: Log) -> None:
        directory = data.files_directory()
        for table in data.TABLES:
            with self._report.loading(table.topic) as on_progress:
                options = LoadOptions(derived=table.derived)
                loaded = load(log, directory / table.file_name, table.topic, options, on_progress)
            self._report.loaded(loaded)
            self.results.topics[table.topic] = loaded.records + loaded.records_before
            self._loaded = loaded.position

    def _wait_for_the_rest(self) -> None:
        """Wait for the processes that are still starting when the files are loaded."""
        for name in ("views", "gateway", "pipelines"):
            self._stack.supervisor.wait_ready(name)

    def _catch_up(self) -> None:
        """Until every view covers the last flight."""
        asked = views(self.url)
        with self._report.catching_up(sum(self._loaded.values())) as on_progress:
            for name in ("carriers", "manufacturers"):
                self._wait(asked, name, on_progress)
            asked["flights"].sql("SELECT 1", at_least=self._loaded, timeout=_CATCH_UP_S_MAX / 2)
            asked["routes"].neighbors("BUR", at_least=self._loaded, timeout=_CATCH_UP_S_MAX / 2)
        asked.close()

    def _wait(self, asked: Views, name: str, on_progress: Any) -> None:
        deadline_s = self._clock.monotonic_s() + _CATCH_UP_S_MAX
        while True:
            try:
                asked[name].get("", at_least=self._loaded, timeout=_LOOK_EVERY_S)
                return
            except PositionTimeoutError as error:
                on_progress(sum(error.reached.restrict(self._loaded.topics).values()))
                if self._clock.monotonic_s() > deadline_s:
                    log = self._stack.layout.run / "pipelines.log"
                    raise UnavailableError(
                        f"view {name} did not catch up; what the pipelines printed: {log}"
                    ) from error

    def _ask(self, asked: Views) -> None:
        for question in QUESTIONS:
            rows = question.ask(asked, self._loaded)
            self.results.answers[question.name] = rows
            self._report.answer(question, rows)

    def _read_your_writes(self, asked: Views) -> None:
        before = asked["carriers"].get("UA", at_least=self._loaded).rows[0]["departures"]
        record = {"key": _NEW_FLIGHT["flight_id"], "value": _NEW_FLIGHT}
        started_s = self._clock.monotonic_s()
        appended = JsonHttp(self.url).call("POST", "/topics/flights/records", body={"records": [record]})
        position = Position.parse(appended["position"])
        after = asked["carriers"].get("UA", at_least=position, timeout=60.0).rows[0]["departures"]
        milliseconds = (self._clock.monotonic_s() - started_s) * 1000
        self.results.read_your_writes = {"included": after == before + 1, "milliseconds": round(milliseconds, 1)}
        self._report.read_your_writes(str(position), before, after, milliseconds)

    def _verify(self, asked: Views) -> None:
        for name in VERIFIED:
            result = asked[name].verify()
            self.results.verify[name] = {"equal": result["equal"], "records": result["records"]}
            self._report.verified(name, result)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started_s = self._clock.monotonic_s()
        yield
        self.results.seconds[name] = self._clock.monotonic_s() - started_s
