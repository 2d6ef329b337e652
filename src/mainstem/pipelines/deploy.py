"""``deploy``: make a log ready for an App. Idempotent: what exists is left as it is, and no topic is ever deleted.

It creates the system's three topics (progress, states and schemas, all compacted, one partition), the App's topics,
those that its pipelines derive, and one dead-letter topic for each view; then it registers the schemas that the App
declares. A derived topic's schema is known only to Spark; the pipelines' process registers it.

Only the progress of a pipeline that the App has no more, though it derived a topic which another one derives now, is
dropped: it will not move again, and whoever waited for it to cover a position would wait for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.errors import DefinitionError
from mainstem.pipelines.app import App
from mainstem.pipelines.definitions import Topic
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.schema.infer import schema_of
from mainstem.schema.registry import SCHEMAS_TOPIC, SYSTEM_TOPIC_CONFIGS, register
from mainstem.schema.types import TopicSchema

if TYPE_CHECKING:
    from mainstem.client.log import Log

_COMPACTED = {"cleanup.policy": "compact"}


def deploy(app: App, log: Log) -> None:
    """Create the topics of ``app`` on ``log`` and register their schemas.

    Raises DefinitionError, before anything is created, when a key or a view names a column that its topic lacks.
    """
    schemas = {topic.name: _schema(topic) for topic in app.topics.values() if topic.schema is not None}
    _check_view_columns(app, schemas)
    for name in (PROGRESS_TOPIC, STATES_TOPIC, SCHEMAS_TOPIC):
        log.create_topic(name, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
    for topic in app.topics.values():
        configs = {**(_COMPACTED if topic.compacted else {}), **topic.configs}
        log.create_topic(topic.name, partitions=topic.partitions, configs=configs, exist_ok=True)
    for view in app.views.values():
        log.create_topic(view.dead_letter_topic, partitions=1, exist_ok=True)
    for name, schema in schemas.items():
        register(log, name, schema, app.topics[name].key)
    _drop_progress_of_former_pipelines(app, log)


def _drop_progress_of_former_pipelines(app: App, log: Log) -> None:
    writers = {topic.name: pipeline.name for pipeline in app.pipelines.values() for topic in pipeline.outputs}
    outputs: dict[str, tuple[str, ...]] = {}
    for record in log.read(PROGRESS_TOPIC):
        progress = Progress.from_record(record)
        if progress is None:
            outputs.pop((record.key or b"").decode(), None)
        else:
            outputs[progress.pipeline] = progress.outputs
    for pipeline, derived in outputs.items():
        if any(writers.get(topic, pipeline) != pipeline for topic in derived):
            log.append(PROGRESS_TOPIC, None, key=pipeline)


def _schema(topic: Topic) -> TopicSchema:
    schema = schema_of(topic.schema)
    _require(topic.key, schema, f"{topic.where}: the key of topic {topic.name}")
    return schema


def _check_view_columns(app: App, schemas: dict[str, TopicSchema]) -> None:
    for view in app.views.values():
        schema = schemas.get(view.topic.name)
        if schema is not None:
            _require(view.kind.columns, schema, f"{view.where}: view {view.name}")


def _require(columns: tuple[str, ...], schema: TopicSchema, whose: str) -> None:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise DefinitionError(f"{whose} names {', '.join(missing)}; there are {', '.join(schema.names)}")
