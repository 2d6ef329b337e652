"""The shapes of answers, as JSON schemas for the description of the API. Later versions may add fields. Data."""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_NUMBER: Final = {"type": "integer"}
_ANY: Final[dict[str, Any]] = {}
_POSITION: Final = {"type": "string", "description": "a position", "examples": ["flights/0:17,flights/3:9"]}


def _object(optional: dict[str, Any] | None = None, **required: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _list(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"}}


_BASE64: Final = {"type": "string", "contentEncoding": "base64"}
_RECORD: Final = _object(
    {"key": {"type": ["string", "null"]}, "key_base64": _BASE64, "value": _ANY, "value_base64": _BASE64},
    partition=_NUMBER,
    offset=_NUMBER,
    timestamp_ms=_NUMBER,
    headers={"type": "array", "items": _object({"value": _ANY, "value_base64": _BASE64}, name=_TEXT)},
)
_TOPIC: Final = _object(name=_TEXT, topic_id=_TEXT, partitions=_NUMBER, internal={"type": "boolean"})
_BROKER: Final = _object(
    id=_NUMBER, address=_TEXT, controller={"type": "boolean"}, configs={"type": "array", "items": {"type": "object"}}
)
_NUMBER_OR_NULL: Final = {"type": ["integer", "null"]}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_BOOLEAN: Final = {"type": "boolean"}
_PARTITION: Final = _object(
    {"error": _TEXT},
    partition=_NUMBER,
    **dict.fromkeys(("beginning", "end", "committed_end", "offsets", "size_bytes", "leader"), _NUMBER_OR_NULL),
    leader_epoch=_NUMBER,
    newest_ms={**_NUMBER_OR_NULL, "description": "the greatest timestamp of its records"},
)
_TOPIC_CONFIG: Final = _object(
    name=_TEXT,
    value=_TEXT_OR_NULL,
    default={**_TEXT_OR_NULL, "description": "the value after a reset"},
    source=_TEXT,
    set=_BOOLEAN,
    sensitive=_BOOLEAN,
    read_only=_BOOLEAN,
    documentation=_TEXT,
)
_CONSUMING_GROUP: Final = _object(
    group=_TEXT,
    type=_TEXT,
    state=_TEXT,
    lag=_NUMBER_OR_NULL,
    partitions={
        "type": ["array", "null"],
        "items": _object(partition=_NUMBER, committed=_NUMBER_OR_NULL, end=_NUMBER_OR_NULL, lag=_NUMBER_OR_NULL),
        "description": "null after 10,000 partitions of all groups",
    },
)
_JOURNEY_RECORD: Final = _object(
    {"key": _TEXT_OR_NULL, "key_base64": _BASE64, "key_bytes": _NUMBER},
    topic=_TEXT,
    partition=_NUMBER,
    offset=_NUMBER,
    timestamp_ms=_NUMBER,
)
_TRANSACTION: Final = _object(
    transactional_id=_TEXT_OR_NULL,
    producer_id=_NUMBER,
    topic=_TEXT,
    partition=_NUMBER,
    first_offset=_NUMBER,
    since_ms=_NUMBER_OR_NULL,
)
_MICRO_BATCH: Final = {
    "anyOf": [
        _object(
            batch_id=_NUMBER,
            first_batch_id=_NUMBER,
            ended_ms=_NUMBER,
            exact={"type": "boolean", "description": "false: it was in this micro-batch or in one before"},
        ),
        {"type": "null"},
    ]
}
_MOVED: Final = {
    "type": "array",
    "items": _object(
        topic=_TEXT,
        ranges={"type": "array", "items": _object(partition=_NUMBER, first=_NUMBER, end=_NUMBER)},
        records={"type": "array", "items": _JOURNEY_RECORD, "description": "the newest with the record's key"},
        not_searched=_TEXT_OR_NULL,
    ),
}
_ORIGIN: Final = _object(
    pipeline=_TEXT,
    topic=_TEXT,
    depth=_NUMBER,
    micro_batch=_MICRO_BATCH,
    inputs=_MOVED,
    covers=_POSITION,
    note=_TEXT_OR_NULL,
)
_PIPELINE_STEP: Final = _object(
    pipeline=_TEXT,
    topic=_TEXT,
    depth=_NUMBER,
    state={"type": "string", "enum": ["read", "waiting", "table"]},
    micro_batch=_MICRO_BATCH,
    outputs=_MOVED,
    waits_for=_TEXT_OR_NULL,
    note=_TEXT_OR_NULL,
)
_WAITED: Final = _object(view=_TEXT, reads=_NUMBER, waiting=_NUMBER, longest_ms=_NUMBER, readers=_TEXTS)
_VIEW_STEP: Final = _object(
    view=_TEXT,
    kind=_TEXT,
    topic=_TEXT,
    depth=_NUMBER,
    until=_POSITION,
    state={"type": "string", "enum": ["applied", "waiting"]},
    applied_ms=_NUMBER_OR_NULL,
    before={"type": "boolean", "description": "it was some time before `applied_ms`"},
    waited={"anyOf": [_WAITED, {"type": "null"}], "description": "the reads that waited for it; null without any"},
    waits_for=_TEXT_OR_NULL,
    note=_TEXT_OR_NULL,
)

_REFERENCES: Final = {"type": "array", "items": _object(name=_TEXT, subject=_TEXT, version=_NUMBER)}
_ARTIFACT: Final = dict.fromkeys(("groupId", "artifactId", "artifactType", "owner", "createdOn"), _TEXT)
_RESOURCE: Final = dict.fromkeys(("resourceName", "resourceNamespace", "resourceId", "resourceType"), _TEXT)
_ASSOCIATION: Final = {"associationType": _TEXT, "lifecycle": _TEXT, "frozen": {"type": "boolean"}}
_STORED_SCHEMA: Final = {
    "schemaType": {"type": "string", "description": "left out for AVRO"},
    "references": _REFERENCES,
    "metadata": {"type": "object"},
    "ruleSet": {"type": "object"},
    "guid": _TEXT,
    "ts": _NUMBER,
    "deleted": {"type": "boolean"},
    "maxId": _NUMBER,
}

SCHEMAS: Final[dict[str, Any]] = {
    "Problem": _object(
        {
            "wanted": _POSITION,
            "reached": _POSITION,
            "transactions": {**_TEXTS, "description": "transactions that hold the position back"},
            "pipelines": {**_TEXTS, "description": "pipelines in between that do not work, each with its status"},
            "condition": _TEXT,
            "expected": _NUMBER,
            "actual": _NUMBER,
            "topic": _TEXT,
            "partition": _NUMBER,
            "first_offset": _NUMBER,
            "last_offset": {"type": ["integer", "null"]},
            "reason": _TEXT,
            "code": _NUMBER,
            "name": _TEXT,
            "retriable": {"type": "boolean"},
        },
        type=_TEXT,
        title=_TEXT,
        status=_NUMBER,
        detail=_TEXT,
    ),
    "Text": _TEXT,
    "Bytes": {"type": "string", "format": "binary"},
    "Object": {"type": "object"},
    "Record": _RECORD,
    "Records": _object({"damaged": _TEXTS}, topic=_TEXT, records=_list("Record"), position=_POSITION),
    "KeyRecords": _object(
        {"scanned": _TEXT, "damaged": _TEXTS}, topic=_TEXT, key=_TEXT, records=_list("Record"), position=_POSITION
    ),
    "Appended": _object(position=_POSITION, records=_NUMBER),
    "Topic": _TOPIC,
    "Topics": _object(topics=_list("Topic")),
    "TopicDescription": {
        "allOf": [
            {"$ref": "#/components/schemas/Topic"},
            _object(
                offsets=_NUMBER,
                beginning=_POSITION,
                end=_POSITION,
                committed_end=_POSITION,
                size_bytes=_NUMBER_OR_NULL,
                configs={"type": "object"},
                set_configs={**_TEXTS, "description": "the configs that have a value of the topic's own"},
            ),
        ]
    },
    "Partitions": _object(
        topic=_TEXT,
        count=_NUMBER,
        partitions={"type": "array", "items": _PARTITION},
        next={**_NUMBER_OR_NULL, "description": "the `after` of the question for the rest; null when this is all"},
    ),
    "Journey": _object(
        {"views_note": _TEXT_OR_NULL},
        topic=_TEXT,
        partition=_NUMBER,
        offset=_NUMBER,
        state={
            "type": "string",
            "enum": ["readable", "no record", "removed", "behind an open transaction", "not written"],
        },
        detail=_TEXT_OR_NULL,
        record={"anyOf": [_JOURNEY_RECORD, {"type": "null"}]},
        transactions={"type": "array", "items": _TRANSACTION},
        now_ms=_NUMBER,
        origins={"type": "array", "items": _ORIGIN},
        pipelines={"type": "array", "items": _PIPELINE_STEP},
        views={"type": "array", "items": _VIEW_STEP},
        complete={"type": "boolean", "description": "false: the journey has more steps than are followed"},
        hidden={"type": "integer", "description": "how many steps lead to topics that the token may not read"},
    ),
    "RowJourney": _object(
        view=_TEXT,
        key=_TEXT,
        topic=_TEXT,
        position=_POSITION,
        covers=_POSITION,
        note=_TEXT_OR_NULL,
        journey={"anyOf": [{"$ref": "#/components/schemas/Journey"}, {"type": "null"}]},
    ),
    "Waited": _WAITED,
    "Applied": _object(view=_TEXT, position=_POSITION, applied=_BOOLEAN, time_ms=_NUMBER_OR_NULL, before=_BOOLEAN),
    "TopicConfigs": _object(topic=_TEXT, configs={"type": "array", "items": _TOPIC_CONFIG}),
    "TopicConsumers": _object(
        topic=_TEXT,
        groups={"type": "array", "items": _CONSUMING_GROUP},
        complete={"type": "boolean", "description": "false: there are more groups than are looked at"},
        pipelines={"type": "array", "items": _object(name=_TEXT, status=_TEXT, lag=_NUMBER_OR_NULL)},
        views={"type": "array", "items": _object(name=_TEXT, kind=_TEXT, state=_TEXT, lag=_NUMBER_OR_NULL)},
    ),
    "Deletions": _object(
        topic=_TEXT,
        executed=_BOOLEAN,
        offsets=_NUMBER,
        partitions={
            "type": "array",
            "items": _object(partition=_NUMBER, before=_NUMBER, after=_NUMBER, offsets=_NUMBER),
        },
    ),
    "Pending": _object(id=_TEXT, status={"const": "pending"}, position=_POSITION),
    "Answered": _object(
        id=_TEXT,
        status={"const": "answered"},
        position=_POSITION,
        reply={"allOf": [{"$ref": "#/components/schemas/Record"}, _object(position=_POSITION)]},
    ),
    "Rows": _object(
        {"checkpoints": {"type": "object", "additionalProperties": _TEXT}},
        rows={"type": "array", "items": {"type": "object"}},
        position=_POSITION,
        covers=_POSITION,
    ),
    "KeyRows": {
        "allOf": [
            {"$ref": "#/components/schemas/Rows"},
            _object(
                next={
                    "type": ["string", "null"],
                    "description": "the `after` of the question for the rows that follow; null when this is all",
                }
            ),
        ]
    },
    "ViewStatus": _object(name=_TEXT, kind=_TEXT, topic=_TEXT, position=_POSITION, covers=_POSITION, state=_TEXT),
    "Views": _object(views=_list("ViewStatus")),
    "ViewPast": _object(
        beginning=_POSITION,
        whole={"type": "boolean", "description": "whether the log has every record since its beginning"},
        moments={"type": "array", "items": _object(what=_TEXT, position=_POSITION, time_ms=_NUMBER)},
    ),
    "Config": _object(version=_TEXT, gateway={"type": "object"}, brokers={"type": "array", "items": _BROKER}),
    "Texts": _TEXTS,
    "Numbers": {"type": "array", "items": _NUMBER},
    "Number": _NUMBER,
    "Any": _ANY,
    "RegistryError": _object(error_code=_NUMBER, message=_TEXT),
    "ApicurioError": _object(title=_TEXT, detail=_TEXT, status=_NUMBER, name=_TEXT, error_code=_NUMBER, message=_TEXT),
    "ArtifactReferences": {
        "type": "array",
        "items": _object(groupId=_TEXT, artifactId=_TEXT, version=_TEXT, name=_TEXT),
    },
    "ArtifactVersion": _object(**_ARTIFACT, version=_TEXT, globalId=_NUMBER, contentId=_NUMBER, state=_TEXT),
    "ArtifactVersions": _object(count=_NUMBER, versions=_list("ArtifactVersion")),
    "CreatedArtifact": _object(
        artifact=_object(**_ARTIFACT, modifiedBy=_TEXT, modifiedOn=_TEXT),
        version={"$ref": "#/components/schemas/ArtifactVersion"},
    ),
    "RegisteredId": _object({"version": _NUMBER, "guid": _TEXT}, id=_NUMBER),
    "StoredSchema": _object(_STORED_SCHEMA, schema=_TEXT),
    "SchemaVersion": _object(_STORED_SCHEMA, subject=_TEXT, version=_NUMBER, id=_NUMBER, schema=_TEXT),
    "SchemaVersions": _list("SchemaVersion"),
    "SubjectVersions": {"type": "array", "items": _object(subject=_TEXT, version=_NUMBER)},
    "SchemaIds": {"type": "array", "items": _object(context=_TEXT, id=_NUMBER)},
    "Compatibility": _object({"messages": _TEXTS}, is_compatible={"type": "boolean"}),
    "RegistryMode": _object(mode=_TEXT),
    "Associations": {
        "type": "array",
        "items": _object(
            {"createTs": _NUMBER, "updateTs": _NUMBER}, guid=_TEXT, **_RESOURCE, subject=_TEXT, **_ASSOCIATION
        ),
    },
    "Associated": _object(
        **_RESOURCE,
        associations={
            "type": "array",
            "items": _object({"schema": {"$ref": "#/components/schemas/StoredSchema"}}, subject=_TEXT, **_ASSOCIATION),
        },
    ),
}
