from __future__ import annotations

import random

import pyarrow as pa
import pytest

from mainstem.views.stores.json_reader import JsonColumn, JsonReader, last_of_each_key
from mainstem.views.stores.rows import row_of
from tests.views.support import KeyAndValue, arrow_batch

TYPED = (JsonColumn("n", "INT"), JsonColumn("s"))

GOOD = [
    b'{"n": 1, "s": "x"}',
    b'{"s": "x"}',
    b"{}",
    b' \t\r\n{"n": null} ',
    b'{"n": 1, }',
    b'{"s": "finance and NaNcy at infinity"}',
    b'{"x": [NaN, nan, -Infinity, inf, -Inf]}',
    b'{"s": "\\u00e9\\ud83d\\ude00\\u0000"}',
    b'{"n": 1, "n": 1}',
    b'{"other": {"deep": [1, {"n": "no number"}]}}',
    b'{"s": "' + b"x" * 5_000 + b'"}',
    b'{"list": [' + b"{}," * 2_000 + b"{}]}",
    b'{"x": ' * 400 + b"1" + b"}" * 400,
    b'{"brackets": "' + b'[{\\"' * 500 + b'"}',
]
BAD = [
    b"",
    b"nul",
    b"null",
    b"5",
    b'"text"',
    b"[1]",
    b'{"n": 1',
    b'{"n": 1}{"n": 2}',
    b"{n: 1}",
    b"{'n': 1}",
    b'{"n": 01}',
    b'{"n": +1}',
    b'{"s": "\x01"}',
    b'{"s": "\\x41"}',
    b'{"s": "\xff"}',
    b'{"s": "\\ud800"}',
    b'\xef\xbb\xbf{"n": 1}',
    b"/* no */ {}",
    b'{"x": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
    b'{"x": ' * 401 + b"1" + b"}" * 401,
]


def read(reader: JsonReader, values: list[bytes]) -> tuple[pa.Table, list[bytes | None]]:
    result = reader.read(arrow_batch([(b"k", value) for value in values]))
    return result.table, [poison.value for poison in result.poisons]


@pytest.mark.parametrize("columns", [(), TYPED], ids=["text", "typed"])
@pytest.mark.parametrize("value", GOOD)
def test_what_is_a_json_object_is_read(columns: tuple[JsonColumn, ...], value: bytes) -> None:
    table, poison = read(JsonReader(columns, text=True), [value])
    assert (len(table), poison) == (1, [])
    assert isinstance(row_of("k", table.column("text")[0].as_py()), dict)


@pytest.mark.parametrize("columns", [(), TYPED, (JsonColumn("s"),)], ids=["text", "typed", "fields"])
@pytest.mark.parametrize("value", BAD)
def test_what_is_none_is_poison(columns: tuple[JsonColumn, ...], value: bytes) -> None:
    table, poison = read(JsonReader(columns, text=not columns), [value])
    assert (len(table), poison) == (0, [value])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("columns", [(), TYPED], ids=["text", "typed"])
def test_the_verdict_on_a_record_does_not_depend_on_its_neighbors(columns: tuple[JsonColumn, ...], seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.choice(GOOD + BAD) for _ in range(30)]
    reader = JsonReader(columns, text=True)
    together, poison = read(reader, values)
    alone = [read(reader, [value]) for value in values]
    assert poison == [value for _, values in alone for value in values]
    assert together.to_pylist() == [row for table, _ in alone for row in table.to_pylist()]


def test_a_poison_record_says_where_it_was_and_why() -> None:
    records: list[KeyAndValue] = [(b"a", b"{}"), (b"b", b'{"n": "x"}'), (None, b"{}"), (b"\xff", b"{}"), (b"c", None)]
    result = JsonReader(TYPED, text=False).read(arrow_batch(records, first_offset=7))
    assert [poison.offset for poison in result.poisons] == [8, 9, 10]
    assert [poison.error for poison in result.poisons] == [
        'the value does not fit its column: n is not INT but "x"',
        "the record has no key",
        "the key is not UTF-8 text: invalid start byte at byte 0",
    ]
    assert result.table.column("tombstone").to_pylist() == [False, True]


def test_a_key_that_a_store_could_not_index_is_poison() -> None:
    records: list[KeyAndValue] = [(b"x" * 60_000, b"{}"), (b"x" * 60_001, b"{}")]
    [poison] = JsonReader((), text=True).read(arrow_batch(records)).poisons
    assert (poison.offset, poison.error) == (1, "the key is longer than 60000 bytes")


def test_an_empty_batch_is_read() -> None:
    for columns, text in (((), True), (TYPED, False)):
        assert len(JsonReader(columns, text=text).read(arrow_batch([])).table) == 0


def test_the_last_row_of_each_key_is_kept_in_order() -> None:
    table = pa.table({"key": ["a", "b", "a", "c", "b"], "n": [0, 1, 2, 3, 4]})
    assert last_of_each_key(table).column("n").to_pylist() == [2, 3, 4]
