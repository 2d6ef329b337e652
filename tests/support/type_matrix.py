"""The table of types: what each takes, as cases that every reader is held to, and as docs/types.md shows them.

A case is a column's type, the JSON text of a field, and its value as a row answers it (``views.rows.plain``), or
``MISFIT``: null where rows are kept, poison or a refusal where they are not.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

MISFIT: Final = "does not fit"


class Case(NamedTuple):
    """A field of one type."""

    type: str
    text: str
    value: Any


def _cases(type_name: str, taken: dict[str, Any], refused: list[str]) -> list[Case]:
    return [Case(type_name, text, value) for text, value in taken.items()] + [
        Case(type_name, text, MISFIT) for text in refused
    ]


_UTC = "2013-01-01T10:00:00Z"
_LOCAL = "2013-01-01T10:00:00"
_MIDNIGHT = "2013-01-01T00:00:00"
CASES: Final[list[Case]] = [
    *_cases(
        "STRING",
        {
            '"a"': "a",
            '"\\u00e9\\n"': "é\n",
            "1.50": "1.50",
            "1e3": "1e3",
            "true": "true",
            '[1, {"a": 2}]': '[1,{"a":2}]',
            '""': "",
        },
        [],
    ),
    *_cases("BOOLEAN", {"true": True, "false": False}, ["1", "0", '"true"', "[]"]),
    *_cases("TINYINT", {"-128": -128, "127": 127}, ["128", "1.5", '"1"']),
    *_cases("SMALLINT", {"-32768": -32768}, ["32768"]),
    *_cases(
        "INT", {"2147483647": 2147483647, "2.0": 2, "1e3": 1000}, ["2147483648", "1.5", "true", '"0x10"', '"7"', "NaN"]
    ),
    *_cases(
        "BIGINT",
        {"9223372036854775807": 2**63 - 1, "9007199254740993.0": 2**53 + 1},
        ["9223372036854775808", '"1_000"'],
    ),
    *_cases("FLOAT", {"0.5": 0.5, "16777217": 16777216.0, "NaN": None}, ["1e39", '"0.5"', "true"]),
    *_cases("DOUBLE", {"1": 1.0, "0.1": 0.1, "1e-400": 0.0, "Infinity": None}, ["1e400", '"1_000"', '"1.5"', "false"]),
    *_cases(
        "DECIMAL(10,2)",
        {"1.25": "1.25", '"1.25"': "1.25", "1.250": "1.25", "1e2": "100.00", "-99999999.99": "-99999999.99"},
        ["1.255", '"1.255"', "100000000", '"1_0"', '" 1"', "true"],
    ),
    *_cases(
        "DATE",
        {'"2020-02-29"': "2020-02-29", '"0001-01-01"': "0001-01-01"},
        ['"2020-02-31"', '"2020/01/01"', '"Jan 1 2000"', '"20200101"', '"2020-01-01T00:00:00Z"', "18262"],
    ),
    *_cases(
        "TIMESTAMP",
        {
            f'"{_UTC}"': _UTC,
            '"2013-01-01T12:00:00+02:00"': _UTC,
            '"2013-01-01 10:00:00"': _UTC,
            '"2013-01-01"': f"{_MIDNIGHT}Z",
            '"2013-01-01T10:00:00.123456789Z"': "2013-01-01T10:00:00.123456Z",
        },
        ['"2013-02-31T10:00:00Z"', '"2013-01-01T24:00:00Z"', '"1 Jan 2013"', '"10000-01-01T00:00:00Z"', "1357034400"],
    ),
    *_cases(
        "TIMESTAMP_NTZ",
        {f'"{_LOCAL}"': _LOCAL, f'"{_UTC}"': _LOCAL, '"2013-01-01T12:00:00+02:00"': _LOCAL},
        ['"2013-01-01T10:00:60"', '"soon"', "1357034400"],
    ),
    *_cases("BINARY", {'"AAE="': "AAE=", '""': ""}, ['"AAE"', '"%"', "5"]),
    *_cases("ARRAY<INT>", {"[1, null]": [1, None], "[]": []}, ['[1, "x"]', "[1.5]", "{}", '"[1]"']),
    *_cases("MAP<STRING, DOUBLE>", {'{"a": 1}': {"a": 1.0}, "{}": {}}, ['{"a": "x"}', "[]"]),
    *_cases("MAP<INT, STRING>", {'{"1": "a"}': {"1": "a"}}, ['{"a": "a"}', '{"1.5": "a"}']),
    *_cases(
        "STRUCT<a: INT, b: ARRAY<DATE>>",
        {
            '{"a": 1, "b": ["2020-01-01"]}': {"a": 1, "b": ["2020-01-01"]},
            "{}": {"a": None, "b": None},
        },
        ['{"a": "1"}', '{"b": ["2020-02-31"]}', "[1]"],
    ),
]
TYPES: Final = list(dict.fromkeys(case.type for case in CASES))
DDL: Final = ", ".join(f"c{number} {type_name}" for number, type_name in enumerate(TYPES))


def column_of(case: Case) -> str:
    """The column of the case's type in ``DDL``."""
    return f"c{TYPES.index(case.type)}"


def value_of(case: Case) -> bytes:
    """A record's value in which the case's column alone is set."""
    return f'{{"{column_of(case)}": {case.text}}}'.encode()


def as_answered(case: Case, value: Any) -> Any:
    """What a reader gave in the form of ``Case.value``: JSON text of nested columns read, absent fields of it null."""
    if isinstance(value, str) and case.type.startswith(("ARRAY", "MAP", "STRUCT")):
        value = json.loads(value)
        if case.type.startswith("STRUCT"):
            value = {"a": None, "b": None, **value}
    return value


def as_markdown() -> str:
    """The table that docs/types.md shows."""
    lines = ["| type | takes | does not take |", "|---|---|---|"]
    for name in TYPES:
        taken = [_example(case) for case in CASES if case.type == name and case.value != MISFIT]
        refused = [f"`{case.text}`" for case in CASES if case.type == name and case.value == MISFIT]
        lines.append(f"| `{name}` | {', '.join(taken)} | {', '.join(refused) or 'nothing'} |")
    return "\n".join(lines)


def _example(case: Case) -> str:
    answered = json.dumps(case.value, ensure_ascii=False)
    return f"`{case.text}`" if answered == case.text else f"`{case.text}` → `{answered}`"
