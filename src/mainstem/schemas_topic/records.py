"""The records of the schemas topic: keys and values in the Schema Registry's own format, so that either can read them.

A key is JSON with a ``keytype``; its fields stand in a fixed order, because compaction compares keys by their bytes.
The values are JSON, too; a tombstone removes what the key names. What a value has beside the known fields is kept.

``NOOP`` is what the Schema Registry writes to find the end of the topic; it never reads its value. Here its value keeps
the greatest id of each context, before the record that has it is removed for good: so no id is used twice.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SCHEMAS_TOPIC: Final = "_schemas"
AVRO: Final = "AVRO"
SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT", "NOOP"
ASSOCIATION: Final = "ASSOCIATION"
"""Ours; other registries leave such records out."""
_SCHEMA_FIELDS: Final = frozenset(
    {"subject", "version", "id", "guid", "md5", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted"}
)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to another schema: its name in the text, and the version of a subject that it means."""

    name: str
    subject: str
    version: int

    def to_json(self) -> Document:
        """As it stands in records and answers."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a schema: two that are equal have one id in a context.

    ``metadata`` and ``rule_set`` are JSON text with sorted keys; None where there is none.
    """

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None

    @property
    def guid(self) -> str:
        """The global id: of the content alone, so the same in every context and registry of this kind."""
        parts = [
            self.schema_type,
            self.text,
            [each.to_json() for each in self.references],
            self.metadata,
            self.rule_set,
        ]
        digest = hashlib.md5(json_text(parts).encode(errors="replace"), usedforsecurity=False)
        return str(uuid.UUID(bytes=digest.digest()))

    def to_json(self) -> Document:
        """Its fields, without those that are empty."""
        document: Document = {}
        if self.schema_type != AVRO:
            document["schemaType"] = self.schema_type
        if self.references:
            document["references"] = [each.to_json() for each in self.references]
        if self.metadata is not None:
            document["metadata"] = json.loads(self.metadata)
        if self.rule_set is not None:
            document["ruleSet"] = json.loads(self.rule_set)
        return {**document, "schema": self.text}


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject. ``timestamp_ms`` is its record's; ``others`` are fields that we do not know."""

    subject: str
    version: int
    id: int
    content: Content
    is_deleted: bool = False
    timestamp_ms: int = 0
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, int]:
        """Subject and version."""
        return self.subject, self.version


def json_text(document: Any) -> str:
    """JSON without spaces."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def sorted_json(document: Any) -> str | None:
    """JSON with sorted keys; None for None."""
    return None if document is None else json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def schema_record(schema: StoredSchema) -> tuple[bytes, bytes]:
    """The record of one version."""
    value = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        **schema.others,
        **schema.content.to_json(),
        "deleted": schema.is_deleted,
    }
    return schema_key(schema.subject, schema.version), json_text(value).encode(errors="replace")


def schema_key(subject: str, version: int) -> bytes:
    """The key of one version."""
    return json_text({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1}).encode()


def subject_key(keytype: str, subject: str) -> bytes:
    """The key of a subject's CONFIG, MODE, DELETE_SUBJECT or CLEAR_SUBJECT; the empty subject is the whole registry."""
    return json_text({"keytype": keytype, "subject": subject or None, "magic": 0}).encode()


def context_key(context: str) -> bytes:
    """The key of a context."""
    return json_text({"keytype": CONTEXT, "tenant": "default", "context": context, "magic": 0}).encode()


def association_key(resource_type: str, resource_id: str, association_type: str) -> bytes:
    """The key of an association."""
    key = {"keytype": ASSOCIATION, "resourceType": resource_type, "resourceId": resource_id}
    return json_text({**key, "associationType": association_type, "magic": 0}).encode()


def own_spelling(key: Mapping[str, Any]) -> bytes | None:
    """The bytes that a key has when this module writes it; None for one that it does not write.

    Raises KeyError, TypeError, ValueError for a key that cannot be read.
    """
    match key["keytype"]:
        case "SCHEMA":
            return schema_key(str(key["subject"]), int(key["version"]))
        case "CONFIG" | "MODE" | "DELETE_SUBJECT" | "CLEAR_SUBJECT" as keytype:
            return subject_key(keytype, str(key.get("subject") or ""))
        case "CONTEXT":
            return context_key(str(key["context"]))
    return None


def greatest_ids_record(ids: Mapping[str, int]) -> tuple[bytes, bytes]:
    """The record that keeps the greatest id of each context."""
    return json_text({"keytype": NOOP, "magic": 0}).encode(), json_text({"greatestIds": dict(ids)}).encode()


def read_schema(key: Mapping[str, Any], value: Mapping[str, Any], timestamp_ms: int) -> StoredSchema:
    """A version, of its record. Raises KeyError, TypeError, ValueError for what is not one."""
    text = value["schema"]
    if not isinstance(text, str):
        raise TypeError("the schema is not text")
    return StoredSchema(
        str(key["subject"]),
        int(key["version"]),
        int(value["id"]),
        Content(
            str(value.get("schemaType") or AVRO),
            text,
            read_references(value.get("references") or ()),
            sorted_json(value.get("metadata")),
            sorted_json(value.get("ruleSet")),
        ),
        bool(value.get("deleted", False)),
        timestamp_ms,
        {name: entry for name, entry in value.items() if name not in _SCHEMA_FIELDS},
    )


def read_references(documents: Sequence[Mapping[str, Any]]) -> tuple[Reference, ...]:
    """References of JSON. Raises KeyError, TypeError, ValueError."""
    return tuple(Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in documents)
