"""JSON values into typed columns: the table of types, what is JSON, and that no record depends on its neighbors."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.record.native.native_json import GOOD, LONE_SURROGATE, NO_JSON, NO_OBJECT, TOO_DEEP
from mainstem.schema.arrow import value_type
from mainstem.schema.infer import schema_of
from mainstem.schema.json_columns import NO_UTF8, NO_VALUE, JsonField, compact_texts, decode, reason
from mainstem.views.stores.rows import plain
from tests.support.type_matrix import CASES, DDL, LACKING, MISFIT, Case, as_answered, as_markdown, column_of, value_of

FIELDS = [JsonField(column.name, value_type(column.type)) for column in schema_of(DDL).columns]
TEXT = [JsonField("x", pa.string())]


def binary(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


def number(text: str, kind: pa.DataType) -> Any:
    return decode(binary([f'{{"x":{text}}}'.encode()]), [JsonField("x", kind)]).columns[0].array[0].as_py()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.type} {case.text}")
def test_a_field_is_what_the_table_of_types_says(case: Case) -> None:
    decoded = decode(binary([value_of(case)]), FIELDS)
    index = [field.name for field in FIELDS].index(column_of(case))
    column = decoded.columns[index]
    if case.value == LACKING:
        assert (column.misfits, column.array.to_pylist()) == (None, [None])
    elif case.value == MISFIT:
        assert column.misfits is not None
        assert column.misfits[0]
        assert column.array.to_pylist() == [None]
        assert decoded.shown(index, 0) == case.text
    else:
        assert column.misfits is None
        [value] = column.array.to_pylist()
        value = dict(value) if isinstance(value, list) and case.type.startswith("MAP") else value
        assert as_answered(case, plain(value)) == case.value


def test_the_page_of_types_shows_the_table_that_is_tested() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "types.md"
    assert as_markdown() in page.read_text(), f"docs/reference/types.md should have:\n{as_markdown()}"


@pytest.mark.parametrize("seed", range(2))
def test_what_a_record_becomes_does_not_depend_on_its_neighbors(seed: int) -> None:
    chance = random.Random(seed)
    odd: list[bytes | None] = [None, b"", b"nope", b"[1]", b'{"c0":', b"\xff", b'{"c0":"\\ud800"}', b'{"c0":1}{}']
    values = [chance.choice([*(value_of(case) for case in CASES), *odd]) for _ in range(100)]
    together = decode(binary(values).slice(7), FIELDS)
    alone = [decode(binary([value]), FIELDS) for value in values[7:]]
    assert together.verdicts.tolist() == [each.verdicts[0] for each in alone]
    for index in range(len(FIELDS)):
        rows = together.columns[index].array.to_pylist()
        assert str(rows) == str([each.columns[index].array[0].as_py() for each in alone])


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (b"{}", GOOD),
        (b' {"a" : [1 , {"b": null}, ] , } \n', GOOD),
        (b'{"a": [nan, -inf, Infinity]}', GOOD),
        (b'{"a": ' * 400 + b"1" + b"}" * 400, GOOD),
        (b'{"a": ' * 401 + b"1" + b"}" * 401, TOO_DEEP),
        (b"[" * 100_000, TOO_DEEP),
        (b"[{}]", NO_OBJECT),
        (b" 7 ", NO_OBJECT),
        (b"", NO_JSON),
        (b"{", NO_JSON),
        (b'{"a"', NO_JSON),
        (b'{"a":', NO_JSON),
        (b'{"a":1', NO_JSON),
        (b'{"a":01}', NO_JSON),
        (b'{"a":1.}', NO_JSON),
        (b'{"a":-}', NO_JSON),
        (b'{"a":tru}', NO_JSON),
        (b'{"a":[1}', NO_JSON),
        (b'{"a":[,]}', NO_JSON),
        (b'{,"a":1}', NO_JSON),
        (b'{"a":"\x01"}', NO_JSON),
        (b'{"a":"\\x"}', NO_JSON),
        (b'{"a":"\\u12"}', NO_JSON),
        (b'{"a":1}}', NO_JSON),
        (b"{a:1}", NO_JSON),
        (b'\xef\xbb\xbf{"a":1}', NO_JSON),
        (b'{"a":"\\ud800"}', LONE_SURROGATE),
        (b'{"a":"\\udc00\\ud800"}', LONE_SURROGATE),
        (b'{"a":"\xff"}', NO_UTF8),
        (None, NO_VALUE),
    ],
)
def test_a_value_is_one_json_object_or_says_why_not(value: bytes | None, verdict: int) -> None:
    decoded = decode(binary([value, b'{"x":"beside"}']), TEXT)
    assert decoded.verdicts.tolist() == [verdict, GOOD]
    assert decoded.columns[0].array.to_pylist() == [None, "beside"]
    if value is not None and verdict != GOOD:
        assert reason(value, verdict).startswith("the value is ")


def test_the_last_of_a_name_that_stands_twice_counts_and_names_may_be_escaped() -> None:
    values = binary([b'{"x":1,"x":2}', b'{"\\u0078":3}', b'{"x\\u0000":4,"X":5,"":6}'])
    assert decode(values, TEXT).columns[0].array.to_pylist() == ["2", "3", None]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4), st.sampled_from([None, 1]), st.booleans())
def test_the_compact_text_is_the_same_json(value: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    try:
        data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    decoded = decode(binary([data]), [])
    if decoded.verdicts[0] == GOOD:
        [text] = compact_texts(decoded).to_pylist()
        assert text == json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":"))


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u0123d8ab e-.', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    decoded = decode(binary([b'{"x":' + data + b"}", data]), TEXT)
    for value, verdict in zip((b'{"x":' + data + b"}", data), decoded.verdicts.tolist(), strict=True):
        try:
            is_object = isinstance(json.loads(value.decode()), dict)
        except (ValueError, RecursionError):
            continue  # what is forgiven is not Python's to judge
        assert (verdict == GOOD) == is_object or verdict == LONE_SURROGATE


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_rounded_once(value: float) -> None:
    for text in (repr(value), f"{value:.25e}"):
        read = number(text, pa.float64())
        assert (read, math.copysign(1, read)) == (float(text), math.copysign(1, float(text)))


@given(st.integers(-(2**70), 2**70), st.integers(0, 4))
def test_a_whole_number_is_exact_or_does_not_fit(value: int, zeros: int) -> None:
    expected = value if -(2**63) <= value < 2**63 else None
    assert number(str(value), pa.int64()) == expected
    assert number(f"{value}.{'0' * (zeros + 1)}", pa.int64()) == expected
    assert number(f"{value * 10**zeros}e-{zeros}", pa.int64()) == expected


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**30), max_value=10**30))
def test_a_decimal_is_exact(value: Any) -> None:
    assert number(str(value), pa.decimal128(38, 3)) == value
    assert number(f'"{value}"', pa.decimal128(38, 3)) == value
