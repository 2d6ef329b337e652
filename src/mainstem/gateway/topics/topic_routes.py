"""The routes of the topics: append, bounded read, list and describe. Their work blocks, so it runs in threads."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from mainstem.client.append.append_options import AppendOptions
from mainstem.client.records import NewRecord
from mainstem.encodings.encoded_records import EncodedRecords, StoredValues, encoded_records
from mainstem.errors import UnknownTopicError
from mainstem.gateway.access.access_rules import ANY_TOKEN, READ_TOPIC, WRITE_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.access.token_auth import grants_of
from mainstem.gateway.access.tokens import Grants
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import AT, CONDITIONS, Answers, Success, success
from mainstem.gateway.http.json_responses import json_response, records_response
from mainstem.gateway.http.key_paths import KEY
from mainstem.gateway.http.queries import AppendQuery, KeyQuery, NoQuery, ReadQuery, TopicsQuery
from mainstem.gateway.http.record_bodies import AppendBody, NewRecordBody
from mainstem.gateway.topics.conditions import append_options_of, entity_tag
from mainstem.gateway.topics.reads import BoundedRead, read
from mainstem.gateway.topics.topic_json import description_json, summary_json, topic_json
from mainstem.model import Position, is_topic_name

if TYPE_CHECKING:
    from mainstem.client.log import Log

_APPENDERS_MAX = 64
_READERS_MAX = 16
_RECORDS = Answers((Success(200, "The records", "Records", AT),), (416,))


def _summaries(log: Log, grants: Grants) -> list[dict[str, Any]]:
    held = log.cluster_admin.inventory()
    return [summary_json(summary) for summary in held if grants.may("read", "topic", summary.topic.name)]


def topic_router(log: Log) -> Routes:
    """All routes under ``/topics``."""
    router = Routes("topics")
    readers = Workers(_READERS_MAX)
    encoded = encoded_records(log)
    _add_append(router, log, encoded)

    @router.declare("GET", "/topics", "Every topic with its partitions", ANY_TOKEN, success("The topics", "Topics"))
    async def list_topics(http: Request, query: Annotated[TopicsQuery, Query()]) -> Response:
        grants = grants_of(http.scope)
        if query.offsets:
            return json_response({"topics": await readers.run(_summaries, log, grants)})
        topics = await readers.run(log.topics)
        shown = [info for info in topics.values() if grants.may("read", "topic", info.name)]
        return json_response({"topics": [topic_json(info) for info in shown]})

    @router.declare(
        "GET",
        "/topics/{topic}",
        "One topic: partitions, where they begin and end, size, settings",
        READ_TOPIC,
        success("The topic", "TopicDescription"),
    )
    async def describe(topic: str, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        described = await readers.run(log.describe_topic, topic)
        return json_response(description_json(described, await readers.run(log.cluster_admin.topic_size_bytes, topic)))

    @router.declare(
        "GET",
        "/topics/{topic}/example",
        "The columns of the topic's registered schema, and a record that fits them",
        READ_TOPIC,
        success("The columns; none without a schema", "Object"),
    )
    async def example(topic: str, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        return json_response(await readers.run(_example, log, topic))

    @router.declare("GET", "/topics/{topic}/records", "A bounded read", READ_TOPIC, _RECORDS)
    async def read_records(topic: str, query: Annotated[ReadQuery, Query()]) -> Response:
        check_name(topic)
        what = BoundedRead(topic, query.start, query.end, query.key, query.limit, query.on_damaged)
        return await readers.run(_read, log, encoded, what)

    @router.declare(
        "GET",
        "/topics/{topic}/keys/" + KEY,
        "One key's records; the entity tag is its last offset",
        READ_TOPIC,
        Answers((Success(200, "The key's records", "KeyRecords", (*AT, "ETag")),), (416,)),
    )
    async def read_key(topic: str, key: str, query: Annotated[KeyQuery, Query()]) -> Response:
        check_name(topic)
        what = BoundedRead(topic, query.start, query.end, key, query.limit, query.on_damaged)
        return await readers.run(_read, log, encoded, what, is_of_key=True)

    return router


def _add_append(router: Routes, log: Log, encoded: EncodedRecords) -> None:
    appenders = Workers(_APPENDERS_MAX)

    @router.declare(
        "POST",
        "/topics/{topic}/records",
        "Append records; the answer's position is just after them",
        WRITE_TOPIC,
        Answers(
            (Success(201, "Appended", "Appended", AT), Success(200, "Checked; nothing was appended", "Object")),
            (409, 412, 504),
            CONDITIONS,
        ),
        body=AppendBody,
    )
    async def append(http: Request, topic: str, query: Annotated[AppendQuery, Query()]) -> Response:
        check_name(topic)
        body = await read_json(http, AppendBody)
        options = append_options_of(http.headers, len(body.records))
        if query.dry_run:
            fitting = await appenders.run(_check_records, log, encoded, topic, body)
            return json_response({"records": len(body.records), "appended": 0, "schema": fitting})
        if query.validate_:
            await appenders.run(encoded.require, topic, *(record.value for record in body.records))
        position = await appenders.run(append_records, log, encoded, topic, body, options)
        return json_response({"position": str(position), "records": len(body.records)}, status=201, position=position)


def check_name(topic: str) -> None:
    """Raise UnknownTopicError for what can be no topic's name, before the log is asked."""
    if not is_topic_name(topic):
        raise UnknownTopicError(f"no topic {topic[:100]!r}: a name has letters, digits, '.', '_' and '-' only")


def _read(log: Log, encoded: EncodedRecords, what: BoundedRead, *, is_of_key: bool = False) -> Response:
    """The answer to a read; of a key with its entity tag, or why there is none."""
    answer = read(log, what, encoded)
    document: dict[str, Any] = {"topic": what.topic}
    if answer.damaged:
        document["damaged"] = answer.damaged
    if is_of_key:
        document["key"] = what.key or ""
        if answer.scan_reason is not None:
            document["scanned"] = answer.scan_reason
    response = records_response(document, answer.records, answer.position)
    if is_of_key and answer.last_offset is not None:
        response.headers["ETag"] = entity_tag(answer.last_offset)
    return response


def _example(log: Log, topic: str) -> dict[str, Any]:
    from mainstem.schema.example import (  # with the schemas, which the log alone does not need
        example_key,
        example_value,
    )
    from mainstem.schema.topic_schemas import lookup

    log.end(topic)  # raises UnknownTopicError
    registered = lookup(log, topic)
    if registered is None:
        return {"topic": topic, "columns": [], "key": [], "example": None}
    value = example_value(registered.schema)
    columns = [{"name": each.name, "type": each.type, "nullable": each.nullable} for each in registered.schema.columns]
    shown = {"key": example_key(value, registered.key), "value": value}
    return {"topic": topic, "columns": columns, "key": list(registered.key), "example": shown}


def _check_records(log: Log, encoded: EncodedRecords, topic: str, body: AppendBody) -> bool:
    """Check records as an append would; whether the topic has a schema that they fit.

    Raises UnknownTopicError, and SchemaError for the first record that does not fit.
    """
    from mainstem.schema.topic_schemas import lookup

    log.end(topic)
    values = [record.value for record in body.records]
    encoded.encoded(topic, values)
    encoded.encoded_keys(topic, [record.key for record in body.records])
    if lookup(log, topic) is None:
        return False
    encoded.require(topic, *values)
    return True


def append_records(log: Log, encoded: EncodedRecords, topic: str, body: AppendBody, options: AppendOptions) -> Position:
    """Append, in order for each partition; with ``options``, the one record.

    Raises UnknownTopicError, RecordTooLargeError, ConditionFailedError, UnsupportedFeatureError, SchemaError.
    """
    encoded_values = encoded.encoded(topic, [record.value for record in body.records])
    keys = encoded.encoded_keys(topic, [record.key for record in body.records])
    if options:
        [one], [value] = body.records, encoded_values.values
        headers = encoded_values.headers_of(value, one.headers)
        placed: dict[str, Any] = {"partition": one.partition, "timestamp_ms": one.timestamp_ms}
        return log.append(topic, value, key=keys[0], headers=headers, **placed, **options)
    return log.append_many(topic, map(_new_record, body.records, keys, encoded_values.values, repeat(encoded_values)))


def _new_record(record: NewRecordBody, key: Any, value: Any, encoded: StoredValues) -> NewRecord:
    headers = encoded.headers_of(value, record.headers)
    return NewRecord(value, key, headers, record.partition, record.timestamp_ms)
