"""The body of an append: records as JSON; ``record_json`` says how their values become bytes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

RECORDS_MAX = 10_000


class NewRecordBody(BaseModel):
    """One record to append."""

    model_config = ConfigDict(extra="forbid")

    key: str | None = Field(None, description="UTF-8 text; decides the partition")
    value: JsonValue = Field(description="object, array, text, number or boolean; null is a tombstone")
    headers: dict[str, str | None] = Field(default_factory=dict)
    partition: int | None = Field(None, ge=0, le=2**31 - 1, description="instead of the key's partition")
    timestamp_ms: int | None = Field(None, ge=0, le=2**62, description="instead of now")


class AppendBody(BaseModel):
    """Records to append, in this order for each partition."""

    model_config = ConfigDict(extra="forbid")

    records: list[NewRecordBody] = Field(min_length=1, max_length=RECORDS_MAX)


class RequestBody(BaseModel):
    """A request for a worker behind the log to answer."""

    model_config = ConfigDict(extra="forbid")

    key: str | None = Field(None, description="UTF-8 text; decides the partition")
    value: JsonValue = Field(description="object, array, text, number or boolean")
    headers: dict[str, str | None] = Field(default_factory=dict)
    timeout_s: float = Field(30.0, ge=0, le=300, description="how long to wait for the reply before it is 202")
