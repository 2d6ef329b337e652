"""``deploy``: make a log ready for an App. Idempotent: it leaves existing topics as they are and deletes none.

It creates the system's topics of one partition (progress, states, commands, logs and schemas, all compacted, and the
finished micro-batches), the App's topics, those that its pipelines derive, and one dead-letter topic for each view;
then it registers the schemas that the App declares. A derived topic's schema is known only to Spark; the pipelines'
process registers it.

It drops one thing: the progress of a pipeline that the App no longer has, when another pipeline now derives one of its
topics. That progress will not move again, so a reader that waits for it to cover a position would wait for ever.
"""

from __future__ import annotations

from mainstem.client.log import Log
from mainstem.encodings.registration import register_topic
from mainstem.errors import DefinitionError, MainstemError, SchemaError
from mainstem.extras import naming_the_extra
from mainstem.pipelines.app import App
from mainstem.pipelines.control.commands import COMMANDS_TOPIC
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC
from mainstem.pipelines.definitions import Topic
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.journey.finished_batches import create_batches_topic
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import SCHEMAS_TOPIC, SYSTEM_TOPIC_CONFIGS
from mainstem.schema.types import TopicSchema

_LOOKED_AT = 100
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"})
_COMPACTED = {"cleanup.policy": "compact"}


def deploy(app: App, log: Log) -> None:
    """Create the topics of ``app`` on ``log`` and register their schemas.

    Raises DefinitionError, before anything is created, when a key or a view names a column that its topic lacks.
    """
    schemas = {topic.name: _schema(topic) for topic in app.topics.values() if topic.schema is not None}
    for topic in app.topics.values():
        if topic.name in schemas:
            _check_encodings(topic, schemas[topic.name])
    _check_view_columns(app, schemas)
    for name in (PROGRESS_TOPIC, STATES_TOPIC, COMMANDS_TOPIC, RUN_LOG_TOPIC, SCHEMAS_TOPIC):
        log.create_topic(name, partitions=1, configs=SYSTEM_TOPIC_CONFIGS, exist_ok=True)
    create_batches_topic(log)
    for topic in app.topics.values():
        if topic.captured:
            continue  # its capture makes it
        configs = {**(_COMPACTED if topic.compacted else {}), **topic.configs}
        log.create_topic(topic.name, partitions=topic.partitions, configs=configs, exist_ok=True)
    for view in app.views.values():
        log.create_topic(view.dead_letter_topic, partitions=1, exist_ok=True)
    for name, schema in schemas.items():
        topic = app.topics[name]
        try:
            register_topic(log, name, schema, topic.key, topic.encoding, topic.key_encoding, topic.framing)
        except SchemaError as error:
            raise DefinitionError(f"{topic.where}: {error}") from error
    _drop_progress_of_former_pipelines(app, log)


def _drop_progress_of_former_pipelines(app: App, log: Log) -> None:
    writers = {topic.name: pipeline.name for pipeline in app.pipelines.values() for topic in pipeline.outputs}
    outputs: dict[str, tuple[str, ...]] = {}
    for key, progress in EntryReader(log, PROGRESS_TOPIC, Progress.from_record):
        if progress is None:
            outputs.pop(key, None)
        else:
            outputs[progress.pipeline] = progress.outputs
    for pipeline, derived in outputs.items():
        if any(writers.get(topic, pipeline) != pipeline for topic in derived):
            log.append(PROGRESS_TOPIC, None, key=pipeline)


def differences(app: App, log: Log) -> list[str]:
    """The differences between existing topics and the App's declarations, a line each, with what to do.

    ``deploy`` leaves existing topics as they are, and their records stay in their partitions. For example, `mainstem
    load` before the first run creates by default a topic with one partition, whose records have no key.
    """
    found = []
    topics = log.topics()
    for topic in app.topics.values():
        info = topics.get(topic.name)
        if info is None or topic.captured:
            continue
        again = f"delete it (mainstem topics delete {topic.name}), start the App, and append or load its records again"
        if info.partitions < topic.partitions:
            found.append(
                f"topic {topic.name} was there before the App and has {info.partitions} of the {topic.partitions} "
                f"partitions that {topic.where or 'the App'} declares; {again}, or declare "
                f"partitions={info.partitions}"
            )
        if topic.key:
            try:
                first = list(log.read(topic.name, limit=_LOOKED_AT))
            except MainstemError as error:
                found.append(f"topic {topic.name}: its first records cannot be read: {error}")
                continue
            without = sum(record.key is None for record in first)
            if without:
                found.append(
                    f"topic {topic.name}: {without} of its first {len(first)} records have no key, though "
                    f"{topic.where or 'the App'} declares the key {', '.join(topic.key)}; views take such records for "
                    f"dead letters, and their tables stay empty; {again}"
                )
    return found


def _schema(topic: Topic) -> TopicSchema:
    try:
        schema = schema_of(topic.schema)
    except DefinitionError as error:
        raise DefinitionError(f"{topic.where}: topic {topic.name}: {error}") from error
    _require(topic.key, schema, f"{topic.where}: the key of topic {topic.name}")
    return schema


def _check_encodings(topic: Topic, schema: TopicSchema) -> None:
    if topic.encoding is None and (topic.key_encoding is None or not topic.key):
        return
    with naming_the_extra():  # Arrow, which other topics do not need
        from mainstem.encodings.encoders import key_schema_text, schema_text

    try:
        if topic.encoding is not None:
            schema_text(topic.name, schema, topic.encoding)
        if topic.key_encoding is not None and topic.key:
            key_schema_text(topic.name, TopicSchema(tuple(map(schema.column, topic.key))), topic.key_encoding)
    except DefinitionError as error:
        raise DefinitionError(f"{topic.where}: {error}") from error


def _check_view_columns(app: App, schemas: dict[str, TopicSchema]) -> None:
    for view in app.views.values():
        schema = schemas.get(view.topic.name)
        if schema is not None:
            _require(view.kind.columns, schema, f"{view.where}: view {view.name}")
            _require_numbers(view.kind.numbers, schema, f"{view.where}: view {view.name}")


def _require_numbers(columns: tuple[str, ...], schema: TopicSchema, whose: str) -> None:
    for column in map(schema.column, columns):
        if column.type not in _NUMBERS and not column.type.startswith("DECIMAL("):
            raise DefinitionError(
                f"{whose}: values= names {column.name}, which is {column.type}: a metrics view takes numbers, and "
                f"every record would be a dead letter; declare the column as DOUBLE, or count by it with by="
            )


def _require(columns: tuple[str, ...], schema: TopicSchema, whose: str) -> None:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise DefinitionError(f"{whose} names {', '.join(missing)}; there are {', '.join(schema.names)}")
