"""The tools of topics and pipelines. A tool's docstring is its description, which the model reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field, WrapValidator

from mainstem.mcp.answers import Answered, answered
from mainstem.mcp.gateway import McpGateway, path_of

Tool: TypeAlias = Callable[..., Answered]
Topic = Annotated[str, Field(description="the topic's name", min_length=1, max_length=249)]
Key = Annotated[str, Field(description="the key as text", max_length=10_000)]
if TYPE_CHECKING:
    OptionalText: TypeAlias = str | None
else:  # the SDK parses JSON in arguments whose type is not str, and a key may be the text of a JSON array
    OptionalText = Annotated[
        str, Field(max_length=10_000), WrapValidator(lambda given, check: None if given is None else check(given))
    ]
Limit = Annotated[int, Field(description="at most so many; fewer come when an answer gets too large", ge=1, le=1_000)]
Place = Annotated[
    str,
    Field(description="`earliest`, `latest`, an offset, a position (TOPIC/0:17,1:4) or a time (ISO 8601)"),
]
OnDamaged: TypeAlias = Literal["stop", "skip"]
_RECORDS_MAX: Final = 500


class RecordToAppend(BaseModel):
    """One record; a value that is an object or array is kept as JSON text, null is a tombstone."""

    model_config = ConfigDict(extra="forbid")

    value: Any
    key: str | None = None
    headers: dict[str, str] = {}


def reading_tools(gateway: McpGateway) -> list[Tool]:
    """Tools that change nothing."""

    def list_topics(
        prefix: Annotated[str, Field(description="only names that begin so", max_length=249)] = "",
        after: Annotated[str, Field(description="only names after this one, to read on", max_length=249)] = "",
    ) -> Answered:
        """List the topics of the log with their partitions, in the order of their names."""
        topics = sorted(gateway.call("GET", "/topics")["topics"], key=lambda topic: str(topic["name"]))
        wanted = [each for each in topics if each["name"].startswith(prefix) and each["name"] > after]
        return gateway.first({"topics": wanted}, "topics", "call again with `after` = the last name, or a prefix")

    def describe_topic(topic: Topic) -> Answered:
        """Describe one topic: where its partitions begin and end, and its settings."""
        return gateway.whole(gateway.call("GET", path_of("topics", topic)))

    def read_records(
        topic: Topic,
        start: Place = "earliest",
        end: Place = "latest",
        key: OptionalText = None,
        limit: Limit = 20,
        on_damaged: OnDamaged = "stop",
    ) -> Answered:
        """Read records of a topic from `start` to before `end`, of one key if given. `position` is just after them."""
        query = {"from": start, "to": end, "key": key, "on_damaged": on_damaged}
        page = gateway.page(path_of("topics", topic, "/records"), query, "records", limit)
        return answered(page, reading_on(page))

    def list_pipelines() -> Answered:
        """List the pipelines: what each reads and writes, how far it is, its last error. Needs `read` on `*`."""
        pipelines = gateway.call("GET", "/pipelines")
        return gateway.whole(pipelines)

    return [list_topics, describe_topic, read_records, list_pipelines]


def reading_on(page: dict[str, Any]) -> str | None:
    """How to go on after a page of records."""
    if not page["records"]:
        return None
    return f"to read on, call read_records with start = {page['position']!r}; no records come at the end"


def key_records(gateway: McpGateway, topic: str, key: str, end: str, limit: int) -> dict[str, Any]:
    """The records of one key before ``end``."""
    if key in (".", ".."):
        return gateway.page(path_of("topics", topic, "/records"), {"key": key, "to": end}, "records", limit)
    return gateway.page(path_of("topics", topic, f"/keys/{quote(key, safe='')}"), {"to": end}, "records", limit)


def writing_tools(gateway: McpGateway) -> list[Tool]:
    """Tools that append."""

    def append_records(
        topic: Topic,
        records: Annotated[list[RecordToAppend], Field(min_length=1, max_length=_RECORDS_MAX)],
        idempotency_key: OptionalText = None,
    ) -> Answered:
        """Append records to a topic. They cannot be taken back. The answer's position is just after them.

        With `idempotency_key` one record is appended once, however often it is sent.
        """
        if idempotency_key is not None and len(records) != 1:
            raise ToolError(f"idempotency_key is for one record, not {len(records)}: append each by a call of its own")
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        body = {"records": [record.model_dump(exclude_unset=True) for record in records]}
        return answered(gateway.call("POST", path_of("topics", topic, "/records"), body=body, headers=headers))

    return [append_records]
