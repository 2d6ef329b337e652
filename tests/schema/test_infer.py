from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Annotated, Literal, NewType, Optional

import pydantic
import pytest

from mainstem.errors import DefinitionError
from mainstem.schema.infer import schema_of
from mainstem.schema.types import Column

Carrier = NewType("Carrier", str)


@dataclass
class Flight:
    carrier: Carrier
    number: int
    dep_delay: float | None
    cancelled: bool
    time_hour: datetime.datetime
    day: Optional[datetime.date]  # noqa: UP045
    cabin: Literal["first", "coach"]
    tailnum: Annotated[str | None, "painted on the tail"] = None
    stops: list[str] = field(default_factory=list)


class Airport(pydantic.BaseModel):
    faa: str
    altitude: int | None = None


def test_a_dataclass_gives_its_fields_in_order() -> None:
    assert schema_of(Flight).columns == (
        Column("carrier", "STRING", nullable=False),
        Column("number", "BIGINT", nullable=False),
        Column("dep_delay", "DOUBLE"),
        Column("cancelled", "BOOLEAN", nullable=False),
        Column("time_hour", "TIMESTAMP", nullable=False),
        Column("day", "DATE"),
        Column("cabin", "STRING", nullable=False),
        Column("tailnum", "STRING"),
        Column("stops", "STRING", nullable=False),
    )


def test_a_pydantic_model_gives_its_fields() -> None:
    assert schema_of(Airport).columns == (Column("faa", "STRING", nullable=False), Column("altitude", "BIGINT"))


def test_ddl_is_kept_as_text() -> None:
    schema = schema_of(" carrier STRING, seats INT ")
    assert schema.ddl_text() == "carrier STRING, seats INT"
    assert schema.names == ("carrier", "seats")


def test_a_field_without_a_column_type_is_named() -> None:
    @dataclass
    class Odd:
        fine: int
        weird: complex

    with pytest.raises(DefinitionError, match=r"Odd\.weird: complex has no column type"):
        schema_of(Odd)


def test_a_union_of_two_types_is_no_column() -> None:
    @dataclass
    class Either:
        what: int | str

    with pytest.raises(DefinitionError, match=r"Either\.what"):
        schema_of(Either)


def test_what_describes_nothing_is_refused() -> None:
    with pytest.raises(DefinitionError, match="give a dataclass, a pydantic model or a Spark DDL string"):
        schema_of(17)
