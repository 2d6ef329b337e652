"""Runs an App's pipelines: one Spark session, one query for each pipeline, each restarted by itself when it fails.

A query that fails is started again from its checkpoint after a pause that grows from failure to failure; the others go
on. Errors that a retry cannot fix (a pipeline's function that raises, a missing topic) end the run before any query
starts. The state of each query is published in the log. Only one run at a time holds an App's checkpoints.
Owned by one thread, but ``stop`` may be called from any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from mainstem.background import StopEvent
from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.encodings.registration import register_topic
from mainstem.errors import PipelineFailedError
from mainstem.pipelines.app import App
from mainstem.pipelines.changes import Choices
from mainstem.pipelines.control.commands import newest_commands
from mainstem.pipelines.control.run_log import RunEvent
from mainstem.pipelines.control.run_notes import RunNotes
from mainstem.pipelines.definitions import Pipeline
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.load import module_of
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import TopicSchema
from mainstem.spark.changes.changed_pipelines import settle_changes
from mainstem.spark.changes.fingerprint import Fingerprint
from mainstem.spark.changes.rebuilding import Site, begin, finish_swaps, swap
from mainstem.spark.checkpoints.checkpoint_lock import locked
from mainstem.spark.options.options import LogOptions
from mainstem.spark.queries.batch_function import BatchFunctionQuery
from mainstem.spark.queries.command_follower import CommandFollower
from mainstem.spark.queries.pipeline_query import PipelineQuery
from mainstem.spark.queries.query import Query, QueryPlace
from mainstem.spark.queries.query_keeper import QueryKeeper, say
from mainstem.spark.queries.query_watch import ProgressWatch
from mainstem.spark.queries.state_publisher import StatePublisher
from mainstem.spark.session import pipelines_session
from mainstem.spark.startup.app_files import share_with_workers

_LOOK_EVERY_S = 0.5
_LOOK_OFTEN_S = 0.1


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
        changed: Choices = Choices(),  # noqa: B008  # immutable
        clock: Clock | None = None,
    ) -> None:
        """``changed``: what becomes of pipelines that were changed since their checkpoints were written.

        ``spark``: a session to use, and leave running; by default one is started at ``master`` and stopped.
        """
        self._app = app
        self._log_options = LogOptions(bootstrap)
        self._master = master
        self._given_spark = spark
        self._checkpoints = checkpoints.resolve()  # workers have another working directory
        self._stopped = StopEvent()
        self._changed = changed
        self._clock = clock or SystemClock()
        self._keepers: list[QueryKeeper] = []
        self._schemas: dict[str, TopicSchema] = {}

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
        with locked(self._checkpoints), Log(self._log_options.bootstrap) as log:
            deploy(self._app, log)
            finish_swaps(self._site(log))
            with ExitStack() as at_end:
                states = at_end.enter_context(StatePublisher(self._log_options.bootstrap))
                spark = self._given_spark or pipelines_session(self._app.name, master=self._master)
                share_with_workers(spark, module_of(self._app))
                if self._given_spark is None:
                    at_end.callback(spark.stop)
                at_end.enter_context(self._queries_stopped(states))
                to_rebuild = self._prepare(spark, log, states.notes, once=once)
                on_ready = _once(on_ready)
                for name, now in to_rebuild.items():
                    on_ready()  # a rebuild may take long
                    self._rebuild(spark, log, self._app.pipelines[name], now, states)
                if self._stopped.is_set():
                    return  # a pipeline whose rebuild was cut short must not go on from its old checkpoint
                if once:
                    self._run_once(log, states, on_ready)
                else:
                    self._run_on(log, states, on_ready)

    def _prepare(self, spark: SparkSession, log: Log, notes: RunNotes, *, once: bool) -> dict[str, Fingerprint]:
        """All queries, in an order in which each comes after those whose output it reads; their schemas registered.

        Returns the pipelines to rebuild, in that order.
        """
        queries: list[Query] = []
        schemas = self._known_schemas(log)
        for pipeline in self._app.pipelines.values():
            if self._stopped.is_set():
                return {}
            place = QueryPlace(self._log_options, str(self._checkpoints / pipeline.name))
            kind = BatchFunctionQuery if pipeline.each_batch else PipelineQuery
            query: Query = kind(spark, pipeline, schemas, place, log)
            queries.append(query)
            watch = ProgressWatch(self._app.name, pipeline.name, once=once, clock=self._clock)
            self._keepers.append(QueryKeeper(query, watch, self._clock, notes))
            schemas.update(query.schemas)
        to_rebuild = settle_changes(
            queries, self._changed, self._site(log), lambda name, text: notes.note(name, RunEvent.CHANGED, text)
        )
        for query in queries:
            for name, schema in query.schemas.items():
                topic = self._app.topics[name]
                register_topic(log, name, schema, topic.key, topic.encoding, topic.key_encoding, topic.framing)
        self._schemas = schemas
        return to_rebuild

    def _rebuild(
        self, spark: SparkSession, log: Log, pipeline: Pipeline, now: Fingerprint, states: StatePublisher
    ) -> None:
        """Derive a changed pipeline's topics again beside the old ones, then swap; see ``rebuilding``."""
        if self._stopped.is_set():
            return
        site = self._site(log)
        shadow = begin(site, pipeline, now)
        place = QueryPlace(self._log_options, str(site.beside(pipeline.name)))
        query = PipelineQuery(spark, shadow, self._schemas, place, log)
        keeper = QueryKeeper(
            query, ProgressWatch(self._app.name, shadow.name, once=True, clock=self._clock), self._clock
        )
        try:
            keeper.start(once=True)
            while keeper.look_once():
                states.put([replace(keeper.state, pipeline=pipeline.name, trigger="rebuild")])
                if self._stopped.wait(_LOOK_OFTEN_S):
                    return
        except PipelineFailedError as error:
            states.notes.note(pipeline.name, RunEvent.GIVEN_UP, f"its rebuild failed: {error}")
            raise
        finally:
            keeper.stop()
        if self._stopped.is_set():
            return
        lines = swap(site, pipeline)
        for line in lines:
            say(f"pipeline {pipeline.name} is rebuilt; {line}")
        states.notes.note(pipeline.name, RunEvent.REBUILT, "\n".join(lines))

    def _site(self, log: Log) -> Site:
        return Site(log, self._log_options, self._checkpoints)

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

    def _run_once(self, log: Log, states: StatePublisher, on_ready: Callable[[], None]) -> None:
        """One after the other, so that each sees what those before it derived. A paused one derives nothing."""
        on_ready()
        commands = newest_commands(log)
        for keeper in self._keepers:
            if self._stopped.is_set():
                return
            if not keeper.recall(commands.get(keeper.name)):
                states.put([keeper.state])
                continue
            keeper.start(once=True)
            while keeper.look_once():
                states.put([keeper.state])
                if self._stopped.wait(_LOOK_OFTEN_S):
                    return
            states.put([keeper.state])

    def _run_on(self, log: Log, states: StatePublisher, on_ready: Callable[[], None]) -> None:
        before = newest_commands(log)
        to_start = [keeper for keeper in self._keepers if keeper.recall(before.get(keeper.name))]
        states.put(keeper.state for keeper in self._keepers)  # before the starts: from now on, commands are taken
        for keeper in to_start:
            keeper.start(once=False)
        on_ready()
        with CommandFollower(log) as commands:
            while not self._stopped.wait(_LOOK_EVERY_S):
                for keeper in self._keepers:
                    keeper.carry_out(commands.newest(keeper.name))
                    keeper.look()
                states.put(keeper.state for keeper in self._keepers)

    @contextmanager
    def _queries_stopped(self, states: StatePublisher) -> Iterator[None]:
        """Stop every query at the end, and publish its last state."""
        try:
            yield
        except (Py4JError, ConnectionError):
            for keeper in self._keepers:
                keeper.give_up("Spark's JVM is gone")
            raise
        finally:
            with ExitStack() as stopping:
                stopping.callback(lambda: states.put(keeper.state for keeper in self._keepers))
                for keeper in self._keepers:
                    stopping.callback(keeper.stop)


def _once(call: Callable[[], None]) -> Callable[[], None]:
    """``call``, but only the first time."""
    return functools.cache(call)


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
