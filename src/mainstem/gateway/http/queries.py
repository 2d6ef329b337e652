"""The query parameters of every route, as models: typed, documented in OpenAPI, and closed to misspelled names."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, replace
from typing import Annotated, Any, Literal, get_type_hints

from fastapi import Header
from pydantic import BaseModel, ConfigDict, Field, create_model

from mainstem.errors import InputError
from mainstem.model import OnDamaged, Position
from mainstem.views.past.as_of import read_moment
from mainstem.views.read_options import LAG_MS_MAX, WAIT_S, WAIT_S_MAX, ReadOptions
from mainstem.views.requests import LIMIT_MAX
from mainstem.views.verification.diff_request import DiffRequest

_POSITION_EXAMPLE = "flights/0:17,flights/3:9"
_Start = Annotated[
    str,
    Field(
        alias="from",
        description="`earliest`, `latest`, an offset (in every partition), a position, or a time (ISO 8601)",
        examples=["earliest", "17", _POSITION_EXAMPLE, "2013-01-01T10:00:00Z"],
    ),
]
_End = Annotated[str, Field(alias="to", description="where to stop, not included; the log's end as it is now")]
_ON_DAMAGED = "at records that are in the log and cannot be read: `stop` with an error, or `skip` them"


LastEventId = Annotated[str, Header(alias="Last-Event-ID", description="the id of the last event: go on from there")]


class NoQuery(BaseModel):
    """A route that takes no query parameters."""

    model_config = ConfigDict(extra="forbid")


class ConfirmQuery(NoQuery):
    """The consent to a deletion."""

    confirm: str = Field("", description="the name of what is deleted again")


def require_confirmation(given: str, name: str, deleted: str = "") -> None:
    """Raise InputError unless the caller gave the name again. The error has ``deleted`` before it: ``"topic "``."""
    if given != name:
        raise InputError(f"this deletes {deleted}{name[:300]!r} for good: say confirm={name[:300]} to do it")


class RecordDeletionQuery(ConfirmQuery):
    """The records that are deleted: all before ``to``."""

    to: str = Field(
        description="delete what is before it: an offset (in every partition), a position (in the partitions that it "
        "names), a time (ISO 8601), or `latest`",
        examples=["17", _POSITION_EXAMPLE, "2013-01-01T10:00:00Z"],
    )
    dry_run: bool = Field(False, description="show how many offsets would go, and delete nothing")


class PartitionsQuery(NoQuery):
    """The partitions that are shown."""

    after: int = Field(
        -1, ge=-1, le=2**31 - 1, description="only partitions after this one: the `next` of the answer before"
    )
    limit: int = Field(1_000, ge=1, le=10_000)


class WaitQuery(NoQuery):
    """How fresh the answer has to be, and how long to wait for that."""

    at_least: str | None = Field(
        None, description="a position; the answer reflects it, or is 504", examples=[_POSITION_EXAMPLE]
    )
    max_lag_ms: int | None = Field(
        None,
        ge=0,
        le=LAG_MS_MAX,
        description="the answer reflects all that was in the log so many milliseconds ago, or is 504",
    )
    as_of: str | None = Field(
        None,
        description="key-value and SQL: the answer as of a past moment: a position of the view, or a time "
        "(ISO 8601, or milliseconds since the epoch)",
        examples=[_POSITION_EXAMPLE, "2013-01-01T10:00:00Z"],
    )
    timeout: float = Field(WAIT_S, ge=0, le=WAIT_S_MAX, description="seconds to wait for that")

    def read_options(self) -> ReadOptions:
        """The same for a view host. Raises PositionFormatError, InputError, QueryError."""
        at_least = None if self.at_least is None else Position.parse(self.at_least)
        as_of = None if self.as_of is None else read_moment(self.as_of)
        return ReadOptions(at_least, self.timeout, self.max_lag_ms, as_of)


class RowsQuery(WaitQuery):
    """The same, for an answer of rows."""

    checkpoints: bool = Field(
        False,
        description="the answer carries the signed checkpoints that cover its position; the view's topic is verifiable",
    )

    def read_options(self) -> ReadOptions:
        """As of WaitQuery."""
        return replace(super().read_options(), checkpoints=self.checkpoints)


def model_of(request: type[Any], base: type[BaseModel]) -> type[BaseModel]:
    """``base`` and the fields of ``request``, a dataclass of ``views.requests``, as one model."""
    types = get_type_hints(request)
    fields: dict[str, Any] = {
        each.name: (types[each.name], Field(... if each.default is MISSING else each.default, **each.metadata))
        for each in dataclasses.fields(request)
    }
    return create_model(request.__name__.removesuffix("Query"), __base__=base, __doc__=request.__doc__, **fields)


class VerifyQuery(NoQuery):
    """How a view is verified."""

    full: bool = Field(True, description="replay the topic, even where the store's own account suffices")


class RebuildQuery(NoQuery):
    """The source of a view's rebuild."""

    source: Literal["log", "left", "lake", "snapshot"] = Field(
        "log",
        alias="from",
        description="`log`: everything, else 409; `left`: what retention has left of it; `lake`: what the topic's Lake "
        "view has, and the log from there; `snapshot`: the view's newest snapshot, and the log from there",
    )


class DiffQuery(NoQuery):
    """Two moments of a view."""

    start: str = Field(
        alias="from",
        description="a position of the view, or a time (ISO 8601, or milliseconds since the epoch)",
        examples=[_POSITION_EXAMPLE, "2013-01-01T10:00:00Z"],
    )
    end: str | None = Field(None, alias="to", description="the same; default: now")
    limit: int = Field(1_000, ge=1, le=LIMIT_MAX)
    after: str | None = Field(None, description="only keys after this one: the `next` of the answer before")
    timeout: float = Field(WAIT_S, ge=0, le=WAIT_S_MAX, description="seconds to wait for the past states")

    def request(self) -> DiffRequest:
        """The same for a view host. Raises PositionFormatError, InputError."""
        end = None if self.end is None else read_moment(self.end)
        return DiffRequest(read_moment(self.start), end, self.limit, self.after, self.timeout)


class AppliedQuery(NoQuery):
    """A position of the view's topic."""

    position: str = Field(description="a position of the view's topic", examples=[_POSITION_EXAMPLE])


class WaitedQuery(NoQuery):
    """The position just after a record, of any topic that the view derives from."""

    record: str = Field(description="the position just after the record", examples=[_POSITION_EXAMPLE])


class JourneyQuery(NoQuery):
    """How much of a journey is shown."""

    views: bool = Field(True, description="also the views on the way")


class RowJourneyQuery(NoQuery):
    """A row of a view."""

    key: str = Field(description="the key of the row's record in the view's topic")


class ReplyQuery(NoQuery):
    """How long to wait for a reply."""

    timeout: float = Field(0.0, ge=0, le=WAIT_S_MAX, description="seconds to wait for the reply")


class KeyQuery(NoQuery):
    """A bounded read of one key."""

    start: _Start = "earliest"
    end: _End = "latest"
    limit: int = Field(100, ge=1, le=10_000)
    on_damaged: OnDamaged = Field("stop", description=_ON_DAMAGED)


class ReadQuery(KeyQuery):
    """A bounded read of a topic."""

    key: str | None = Field(None, description="only records of this key")


class StreamQuery(NoQuery):
    """Where a stream of a topic begins, and what it lets through."""

    start: str = Field(
        "latest",
        alias="from",
        description="`earliest`, `latest`, an offset (in every partition), a position, or a time (ISO 8601)",
        examples=["earliest", "17", _POSITION_EXAMPLE, "2013-01-01T10:00:00Z"],
    )
    key: str | None = Field(None, description="only records of this key")
    route: str | None = Field(
        None, description="only records whose routing key matches this pattern", examples=["orders.eu.*", "orders.#"]
    )
    on_damaged: OnDamaged = Field("stop", description=_ON_DAMAGED)


class SearchRecordsQuery(NoQuery):
    """A search: its conditions, its range and its limits."""

    text: str | None = Field(
        None, max_length=1_000, description="a text in key, value or headers, in any case", examples=["F0042"]
    )
    where: str | None = Field(
        None,
        max_length=2_000,
        description="comparisons of fields of a JSON value, all of which hold: `= != < <= > >=`, and `~` for a text "
        "within a text",
        examples=["carrier = 'UA' AND delay > 120"],
    )
    start: _Start = "earliest"
    end: _End = "latest"
    partition: int | None = Field(None, ge=0, le=2**31 - 1, description="only in this partition")
    limit: int = Field(100, ge=1, le=1_000, description="end after so many hits")
    timeout: float = Field(30.0, ge=0, le=120, description="end after so many seconds")
    client: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="a random id of the client: a new search with the same id ends the one before",
        examples=["7f3a91c2"],
    )
    on_damaged: OnDamaged = Field("stop", description=_ON_DAMAGED)


class TopicsQuery(NoQuery):
    """How much to tell of every topic."""

    offsets: bool = Field(False, description="also what each topic holds: its ends, records, bytes, cleanup policy")


class LetterTopicsQuery(NoQuery):
    """Which dead letters to group."""

    topic: str | None = Field(None, max_length=249, description="only of this topic of dead letters")


class LettersQuery(NoQuery):
    """Which dead letters of a topic to list."""

    group: str | None = Field(None, max_length=64, description="only of this group: the `id` of a reason")
    handled: bool = Field(False, description="also those that are marked as handled")
    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=40, description="the `next` of the answer before: only older ones")


class AppendQuery(NoQuery):
    """The checks of records before they are appended."""

    validate_: bool = Field(
        False, alias="validate", description="refuse records that do not fit the topic's registered schema (422)"
    )
    dry_run: bool = Field(
        False, description="check the records, also by the topic's schema if it has one, and append nothing"
    )


class ViewStreamQuery(NoQuery):
    """Which changes of a view a stream tells."""

    key: str | None = Field(None, description="key-value: only this key; its row comes first")
    prefix: str | None = Field(None, description="key-value: only keys that begin so")
    start: str | None = Field(
        None,
        alias="from",
        description="a position of the view's topic; changes since are sent. Without it, changes from now on",
        examples=[_POSITION_EXAMPLE],
    )
