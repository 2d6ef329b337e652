"""The check of one JSON value by a JSON Schema, with jsonschema-rs.

A value comes from outside, and so may the schema: nothing is fetched, nesting is bounded, and patterns run in the time
of one pass where their syntax allows that, else with a bound on backtracking.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import jsonschema_rs

from mainstem.json_depth import is_too_deep
from mainstem.registry.formats.json_schema.json_schema_format import JsonSchema
from mainstem.registry.formats.json_schema.json_schema_nodes import DIALECTS, OFFLINE
from mainstem.registry.formats.schema_format import InvalidSchemaError, ParsedSchema

_BACKTRACKS_MAX: Final = 100_000
_PATTERNS: Final = (
    jsonschema_rs.RegexOptions(),
    jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS_MAX),
)


def json_value_check(schema: ParsedSchema) -> Callable[[bytes], str | None]:
    """A function that says why bytes are no JSON value of the schema, or None. Raises InvalidSchemaError."""
    assert isinstance(schema, JsonSchema)
    validator = _validator(schema)

    def misfit(data: bytes) -> str | None:
        try:
            text = data.decode()
            if is_too_deep(text):
                return "the JSON is nested too deeply"
            value = json.loads(text, parse_constant=_refuse_constant)
            first = next(validator.iter_errors(value), None)
        except (ValueError, RecursionError) as error:
            return f"it is not JSON: {_line(str(error))}"
        if first is None:
            return None
        return f"{_line(first.message)} (at /{'/'.join(map(str, first.instance_path))})"

    return misfit


def _validator(schema: JsonSchema) -> Any:
    tree = json.loads(schema.resolved())
    if isinstance(tree, dict):
        tree["$schema"] = DIALECTS[schema.draft]
    said = ""
    for patterns in _PATTERNS:
        try:
            return jsonschema_rs.validator_for(tree, registry=OFFLINE, pattern_options=patterns)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            said = str(error)
    raise InvalidSchemaError(_line(said))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _line(text: str) -> str:
    return " ".join(text.split())
