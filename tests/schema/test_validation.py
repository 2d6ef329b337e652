"""Values are held to their topic's schema before they are appended, where that is asked for."""

from __future__ import annotations

from typing import Any

import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.errors import SchemaError
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from mainstem.schema.validation import SCHEMA_KEPT_S
from mainstem.testing.clock import ManualClock
from tests.support.type_matrix import (
    CASES,
    DDL,
    LACKING,
    MISFIT,
    REFUSED,
    Case,
    column_of,
    fitting,
    value_of,
    wrong_cells,
)


def test_what_the_table_of_types_takes_is_valid(mainstem_log: Log, mainstem_topic: str) -> None:
    register(mainstem_log, mainstem_topic, schema_of(DDL))
    validator = ms.Validator(mainstem_log)

    def made(case: Case) -> Any:
        try:
            validator.require(mainstem_topic, value_of(case))
        except SchemaError as error:
            return REFUSED if f"topic {mainstem_topic}: column '{column_of(case)}'" in str(error) else error
        return "taken" if case.value in (MISFIT, LACKING) else case.value

    assert wrong_cells("Validator", [(case, made(case)) for case in CASES]) == []
    validator.require(mainstem_topic, *map(value_of, fitting("Validator")), None)


@pytest.mark.parametrize("value", [b"nope", b"[1]", "text", {"n": None}, {}, {"n": 1.5}, b'{"n":"\\ud800"}'])
def test_a_value_that_readers_would_refuse_is_invalid(mainstem_log: Log, mainstem_topic: str, value: object) -> None:
    register(mainstem_log, mainstem_topic, schema_of("n INT NOT NULL"))
    validator = ms.Validator(mainstem_log)
    with pytest.raises(SchemaError, match=f"topic {mainstem_topic}: value 2 of 2"):
        validator.require(mainstem_topic, {"n": 1}, value)


def test_a_new_schema_is_known_after_a_while(mainstem_log: Log, mainstem_topic: str) -> None:
    clock = ManualClock()
    validator = ms.Validator(mainstem_log, clock)
    with pytest.raises(SchemaError, match="has no schema to validate by"):
        validator.require(mainstem_topic, {"n": "a"})
    register(mainstem_log, mainstem_topic, schema_of("n STRING"))
    validator.require(mainstem_topic, {"n": "a"})
    register(mainstem_log, mainstem_topic, schema_of("n INT"))
    validator.require(mainstem_topic, {"n": "a"})
    clock.advance(SCHEMA_KEPT_S)
    with pytest.raises(SchemaError, match="is not INT"):
        validator.require(mainstem_topic, {"n": "a"})
