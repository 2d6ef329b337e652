"""The table of types: what each takes, as cases for every reader, and as docs/reference/types.md shows them.

A case is a column's type, the JSON text of a field, and its value as a row answers it (``views.rows.plain``), or why it
has none. ``READERS`` says what each reader makes of those: with the cases, a cell for each type, value and reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from mainstem.schema.arrow import value_type
from mainstem.schema.infer import schema_of
from mainstem.schema.json_columns import JsonField, decode
from mainstem.views.stores.rows import plain

MISFIT: Final = "does not fit"
LACKING: Final = "is null or missing, and must not be"
MISSING: Final = ""
"""The text of a field that is not there."""

NULL: Final = None
POISON: Final = "poison"
REFUSED: Final = "refused"


class Case(NamedTuple):
    """A field of one type."""

    type: str
    text: str
    value: Any

    @property
    def is_finite(self) -> bool:
        """Whether the text is JSON, which has no form of NaN and the infinities."""
        return self.text not in ("NaN", "Infinity")


class Reader(NamedTuple):
    """What becomes of a field that does not fit, of a null in a ``NOT NULL`` column, and of NaN and the infinities."""

    misfit: Any
    lacking: Any
    not_finite: Any = NULL


READERS: Final[Mapping[str, Reader]] = {
    "SQL view": Reader(POISON, POISON),
    "sink": Reader(POISON, POISON),
    "lake": Reader(NULL, NULL),
    "Spark": Reader(NULL, NULL),
    "pipeline": Reader(NULL, NULL),
    "load": Reader(REFUSED, REFUSED, REFUSED),
    "Validator": Reader(REFUSED, REFUSED),
    "POST": Reader(REFUSED, REFUSED, REFUSED),
}


def expected(case: Case, reader: str) -> Any:
    """What the case's cell says of a reader: the value, NULL, POISON or REFUSED."""
    made = READERS[reader]
    if not case.is_finite and made.not_finite == REFUSED:
        return REFUSED
    return made.misfit if case.value == MISFIT else made.lacking if case.value == LACKING else case.value


def fitting(reader: str) -> list[Case]:
    """The cases that a reader takes: their records can stand beside each other."""
    return [case for case in CASES if expected(case, reader) not in (POISON, REFUSED)]


def wrong_cells(reader: str, found: Iterable[tuple[Case, Any]]) -> list[str]:
    """The cells of a reader that are not what they should be, each with what it is and what it should be."""
    cells = [(case, as_answered(case, value), expected(case, reader)) for case, value in found]
    return [f"{case.type} {case.text}: {made!r}, not {due!r}" for case, made, due in cells if not _same(made, due)]


def _same(one: Any, other: Any) -> bool:
    return bool(type(one) is type(other) and one == other)


def _cases(type_name: str, taken: dict[str, Any], refused: Iterable[str], lacking: Iterable[str] = ()) -> list[Case]:
    """The cases of a type; a field of it that is null or missing is null, unless it is ``lacking``."""
    absent = [Case(type_name, text, NULL) for text in ("null", MISSING) if text not in lacking]
    return [
        *(Case(type_name, text, value) for text, value in taken.items()),
        *absent,
        *(Case(type_name, text, MISFIT) for text in refused),
        *(Case(type_name, text, LACKING) for text in lacking),
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
            '"0001-01-01T00:00:00Z"': "0001-01-01T00:00:00Z",
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
    *_cases("CHAR(2)", {'"abc"': "abc", '"a"': "a", "5": "5"}, []),
    *_cases("VARCHAR(2)", {'"abc"': "abc", "true": "true"}, []),
    *_cases("ARRAY<INTERVAL YEAR>", {'["x", 1, null]': ["x", "1", None]}, ['"x"']),
    *_cases("MAP<STRING, VARIANT>", {'{"a": [1, "x"]}': {"a": '[1,"x"]'}}, ["[]"]),
    *_cases(
        "STRUCT<a: CHAR(1) NOT NULL, b: INTERVAL DAY TO SECOND>",
        {'{"a": "xy", "b": {"c": 5}}': {"a": "xy", "b": '{"c":5}'}, "{}": {"a": None, "b": None}},
        ['"x"'],
    ),
    *_cases("INT NOT NULL", {"1": 1}, ["1.5"], ["null", MISSING]),
]
TYPES: Final = list(dict.fromkeys(case.type for case in CASES))
DDL: Final = ", ".join(f"c{number} {type_name}" for number, type_name in enumerate(TYPES))

_FIELDS: Final = [JsonField(column.name, value_type(column.type)) for column in schema_of(DDL).columns]


def column_of(case: Case) -> str:
    """The column of the case's type in ``DDL``."""
    return f"c{TYPES.index(case.type)}"


def value_of(case: Case) -> bytes:
    """A record's value in which the case's column alone is set, and those that must be."""
    fields = {f"c{number}": "1" for number, name in enumerate(TYPES) if name.endswith("NOT NULL")}
    fields[column_of(case)] = case.text
    return (
        f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text in fields.items() if text != MISSING)}}}".encode()
    )


def read_columns(cases: Iterable[Case]) -> list[pa.Array]:
    """The columns of ``DDL`` as the schema's reader makes them of the cases' records."""
    return [column.array for column in decode(pa.array(map(value_of, cases), pa.binary()), _FIELDS).columns]


def as_read(case: Case, value: bytes | None) -> Any:
    """What the schema's reader makes of a record in the case's column."""
    field = _FIELDS[TYPES.index(case.type)]
    [read] = decode(pa.array([value], pa.binary()), [field]).columns[0].array.to_pylist()
    return plain(dict(read) if isinstance(read, list) and case.type.startswith("MAP") else read)


def as_answered(case: Case, value: Any) -> Any:
    """What a reader gave in the form of ``Case.value``.

    JSON text of nested columns is read, absent fields of it are null, and parts of types that are not read are text.
    """
    if not case.type.startswith(("ARRAY", "MAP", "STRUCT")) or value in (NULL, POISON, REFUSED):
        return value
    if isinstance(value, str):
        value = json.loads(value)
    if case.type.startswith("STRUCT"):
        value = {"a": None, "b": None, **value}
    if not {"INTERVAL", "VARIANT"} & set(re.findall(r"\w+", case.type)):
        return value
    return [_text(each) for each in value] if isinstance(value, list) else {n: _text(each) for n, each in value.items()}


def _text(part: Any) -> Any:
    return part if part is None or isinstance(part, str) else json.dumps(part, separators=(",", ":"))


def as_markdown() -> str:
    """The table that docs/reference/types.md shows."""
    lines = ["| type | takes | does not take |", "|---|---|---|"]
    for name in TYPES:
        cases = [case for case in CASES if case.type == name]
        taken = [_example(case) for case in cases if case.value not in (MISFIT, LACKING) and not _is_null(case)]
        refused = [_shown(case) for case in cases if case.value in (MISFIT, LACKING)]
        lines.append(f"| `{name}` | {', '.join(taken)} | {', '.join(refused) or 'nothing'} |")
    return "\n".join(lines)


def _is_null(case: Case) -> bool:
    return case.text in ("null", MISSING)


def _example(case: Case) -> str:
    answered = json.dumps(case.value, ensure_ascii=False)
    return _shown(case) if answered == case.text else f"{_shown(case)} → `{answered}`"


def _shown(case: Case) -> str:
    return "a missing field" if case.text == MISSING else f"`{case.text}`"
