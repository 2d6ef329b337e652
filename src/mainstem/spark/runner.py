"""Runs an App's pipelines: one Spark session, one query for each pipeline, each restarted by itself when it fails.

A query that fails is started again from its checkpoint after a pause that grows from failure to failure; the others go
on. What makes no sense to repeat (a pipeline's function that raises, a topic that is not there) ends the run before any
query starts. Owned by one thread, but ``stop`` may be called from any.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.client.log import Log
from mainstem.errors import PipelineFailedError
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.load import module_of
from mainstem.schema.infer import schema_of
from mainstem.schema.registry import lookup, register
from mainstem.schema.types import TopicSchema
from mainstem.spark.batch_function import BatchFunctionQuery
from mainstem.spark.options import LogOptions
from mainstem.spark.pipeline_query import PipelineQuery
from mainstem.spark.query import Query, QueryPlace
from mainstem.spark.session import session

_PAUSE_S_FIRST = 1.0
_PAUSE_S_MAX = 60.0
_LOOK_EVERY_S = 0.5
_LOOK_OFTEN_S = 0.05
_CAUSE_CHARS_MAX = 500
# The last line of a Python traceback.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit): ")


@dataclass(slots=True)
class _Running:
    """A query, and how its restarts go."""

    query: Query
    handle: StreamingQuery | None = None
    pause_s: float = _PAUSE_S_FIRST
    wait_s: float = 0.0
    failures: int = field(default=0)


class Runner:
    """The pipelines of one App on one log."""

    def __init__(
        self,
        app: App,
        bootstrap: str,
        *,
        checkpoints: Path,
        master: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """``spark``: a session to use, and leave running; by default one is started at ``master`` and stopped."""
        self._app = app
        self._log_options = LogOptions(bootstrap)
        self._master = master
        self._given_spark = spark
        self._checkpoints = checkpoints.resolve()  # workers have another working directory
        self._stopped = threading.Event()
        self._running: list[_Running] = []

    def run(self, *, once: bool = False, on_ready: Callable[[], None] = lambda: None) -> None:
        """Run until ``stop``, or with ``once`` until all that is in the log now is derived.

        Raises DefinitionError, MissingDependencyError, LogUnavailableError before anything runs; PipelineFailedError
        when Spark's JVM is gone, and with ``once`` when a query fails.
        """
        try:
            self._run(once=once, on_ready=on_ready)
        except (Py4JError, ConnectionError) as error:
            raise PipelineFailedError(
                f"Spark's JVM is gone ({type(error).__name__}); start the pipelines again"
            ) from error

    def stop(self) -> None:
        """Make ``run`` return soon; from any thread."""
        self._stopped.set()

    def _run(self, *, once: bool, on_ready: Callable[[], None]) -> None:
        module = module_of(self._app)
        if module is not None:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # workers cannot import the user's file by its name
        with Log(self._log_options.bootstrap) as log:
            deploy(self._app, log)
            spark = self._given_spark or session(self._app.name, master=self._master)
            try:
                self._prepare(spark, log)
                if once:
                    self._run_once(on_ready)
                else:
                    self._run_on(on_ready)
            finally:
                self._stop_queries()
                if self._given_spark is None:
                    spark.stop()

    def _prepare(self, spark: SparkSession, log: Log) -> None:
        """All queries, in an order in which each comes after those whose output it reads; their schemas registered."""
        schemas = self._known_schemas(log)
        for pipeline in self._app.pipelines.values():
            if self._stopped.is_set():
                return
            place = QueryPlace(self._log_options, str(self._checkpoints / pipeline.name))
            kind = BatchFunctionQuery if pipeline.each_batch else PipelineQuery
            query = kind(spark, pipeline, schemas, place, log)
            self._running.append(_Running(query))
            for name, schema in query.schemas.items():
                register(log, name, schema, self._app.topics[name].key)
            schemas.update(query.schemas)

    def _known_schemas(self, log: Log) -> dict[str, TopicSchema]:
        """Of the topics that are read: the declared schema, or the one that the log has."""
        schemas: dict[str, TopicSchema] = {}
        pipelines = self._app.pipelines.values()
        derived = {topic.name for pipeline in pipelines if not pipeline.each_batch for topic in pipeline.outputs}
        for topic in self._app.topics.values():
            if topic.schema is not None:
                schemas[topic.name] = schema_of(topic.schema)
            elif topic.name not in derived and (found := lookup(log, topic.name)) is not None:
                schemas[topic.name] = found.schema
        return schemas

    def _run_once(self, on_ready: Callable[[], None]) -> None:
        on_ready()
        for running in self._running:
            if self._stopped.is_set():
                return
            running.handle = running.query.start(once=True)
            while running.handle.isActive and not self._stopped.wait(_LOOK_OFTEN_S):
                continue
            if running.handle.exception() is not None:
                name = running.query.pipeline.name
                raise PipelineFailedError(f"pipeline {name} failed: {_cause(running)}")

    def _run_on(self, on_ready: Callable[[], None]) -> None:
        for running in self._running:
            running.handle = running.query.start(once=False)
        on_ready()
        while not self._stopped.wait(_LOOK_EVERY_S):
            for running in self._running:
                self._look_after(running)

    def _look_after(self, running: _Running) -> None:
        if running.handle is not None and running.handle.isActive:
            if running.failures and running.handle.lastProgress is not None:
                running.failures, running.pause_s = 0, _PAUSE_S_FIRST  # a micro-batch went through
            return
        if running.handle is not None:
            name = running.query.pipeline.name
            _say(f"pipeline {name} failed: {_cause(running)}; again in {running.pause_s:g} s")
            running.handle, running.wait_s = None, running.pause_s
            running.failures += 1
            running.pause_s = min(running.pause_s * 2, _PAUSE_S_MAX)
        running.wait_s -= _LOOK_EVERY_S
        if running.wait_s <= 0:
            running.handle = running.query.start(once=False)

    def _stop_queries(self) -> None:
        for running in self._running:
            if running.handle is not None and running.handle.isActive:
                running.handle.stop()
            running.query.close()


def run(
    app: App,
    bootstrap: str,
    master: str | None,
    checkpoint_dir: Path,
    *,
    once: bool = False,
) -> None:
    """Run the App's pipelines in this process; see ``Runner.run``."""
    Runner(app, bootstrap, checkpoints=checkpoint_dir, master=master).run(once=once)


def _cause(running: _Running) -> str:
    """What made the query fail, in a line: the last error raised, and where in the pipeline's own file that was."""
    error = running.handle.exception() if running.handle is not None else None
    if error is None:
        return "it was stopped"
    text = str(error)
    file = running.query.pipeline.function.__code__.co_filename
    places = re.findall(rf'File "{re.escape(file)}", line (\d+), in (\S+)', text)
    where = f"{Path(file).name}:{places[-1][0]}, in {places[-1][1]}: " if places else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    return where + (raised[-1] if raised else next(iter(lines), "unknown"))[:_CAUSE_CHARS_MAX]


def _say(text: str) -> None:
    print(f"mainstem: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the process's log
