"""Large JSON bodies: read record by record off the event loop, with the same result as when read whole."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

import pytest
from starlette.requests import Request

from mainstem.errors import InputError
from mainstem.gateway.http import bodies
from mainstem.gateway.http.bodies import RECORD_VALUES_MAX, VALUES_MAX, read_json
from mainstem.gateway.http.body_slices import record_slices
from mainstem.gateway.http.problem_responses import HttpError
from mainstem.gateway.http.record_bodies import RECORDS_MAX, AppendBody, RequestBody

MANY = 9_000


def request_of(body: bytes) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)


def append_body(body: bytes) -> AppendBody:
    return asyncio.run(read_json(request_of(body), AppendBody))


def some_value(chance: random.Random, depth: int = 0) -> Any:
    texts = ['a "quoted" text', "[{,]}", "\\", 'end\\"', "é 🎉", ""]
    kinds: list[Any] = [None, True, 17, -1.5e300, *texts]
    if depth < 3:
        kinds += [
            [some_value(chance, depth + 1) for _ in range(chance.randrange(4))],
            {chance.choice(texts): some_value(chance, depth + 1) for _ in range(chance.randrange(4))},
        ]
    return chance.choice(kinds)


def test_a_body_in_slices_is_the_body_read_whole() -> None:
    chance = random.Random(4)
    for round_number in range(8):
        records = [{"value": some_value(chance), "key": f"k{n}", "headers": {"[": "{"}} for n in range(1_700)]
        indent = chance.choice([None, 1])
        body = json.dumps({"records": records}, ensure_ascii=chance.random() < 0.5, indent=indent).encode()
        slices = list(record_slices(body, RECORD_VALUES_MAX))
        assert [json.loads(text) for text, _ in slices] == records, round_number
        assert append_body(body) == AppendBody.model_validate_json(body)


MANY_VALUES = [{"n": n, "text": "x" * 300} for n in range(MANY)]
MANY_ESCAPES = ["\u20ac" * 2_300] * 300
LONG_FRACTIONS = [0.5, *["1." * 6_000] * 300]


@pytest.mark.parametrize("values", [MANY_VALUES, MANY_ESCAPES, LONG_FRACTIONS], ids=["values", "escapes", "fractions"])
def test_a_large_body_is_read_in_parts_and_never_on_the_loop(
    values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part keeps the interpreter's lock while it is parsed; between two parts the loop can have it."""
    body = json.dumps({"records": [{"key": str(n), "value": value} for n, value in enumerate(values)]}).encode()
    threads: list[int] = []
    parsed = bodies._parsed

    def noting(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return parsed(*arguments)

    monkeypatch.setattr(bodies, "_parsed", noting)
    read = append_body(body)
    assert [record.value for record in read.records] == values
    assert len(threads) == len(values)
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    "record",
    [
        {"value": [1] * (RECORD_VALUES_MAX + 1)},
        {"value": 1, "headers": {str(n): "x" for n in range(RECORD_VALUES_MAX + 1)}},
        {"value": [{"a": 1}] * (RECORD_VALUES_MAX // 2 + 1)},
    ],
    ids=["list", "headers", "objects"],
)
def test_one_record_of_too_many_values_is_refused_by_its_number(record: dict[str, Any]) -> None:
    body = json.dumps({"records": [{"value": 1}, record]}).encode()
    with pytest.raises(HttpError, match=rf"records\.1 has more than {RECORD_VALUES_MAX} JSON values"):
        append_body(body)


def test_the_values_of_all_records_are_bounded() -> None:
    record = {"value": [1] * (RECORD_VALUES_MAX - 10)}
    with pytest.raises(HttpError, match=f"more than {VALUES_MAX} JSON values"):
        append_body(json.dumps({"records": [record] * (VALUES_MAX // RECORD_VALUES_MAX + 1)}).encode())


def test_a_request_body_of_too_many_values_is_refused() -> None:
    body = json.dumps({"value": [1] * (RECORD_VALUES_MAX + 1)}).encode()
    with pytest.raises(HttpError, match=f"more than {RECORD_VALUES_MAX} JSON values"):
        asyncio.run(read_json(request_of(body), RequestBody))
    text = json.dumps({"value": "[,{" * RECORD_VALUES_MAX}).encode()
    assert asyncio.run(read_json(request_of(text), RequestBody)).value == "[,{" * RECORD_VALUES_MAX


ROWS = b'{"value":[1,2,3]},' * MANY


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"records":[' + ROWS + b'{"vlaue":1}]}', rf"records\.{MANY}: .*did you mean value"),
        (b'{"records":[' + ROWS + b"]}", rf"records\.{MANY}: .*JSON"),
        (b'{"records":[' + ROWS + b"1}}", "follows the records|valid dictionary|object"),
        (b'{"records":[' + ROWS + b'{"value":}]}', rf"records\.{MANY}: .*JSON"),
        (b'{"records":[' + ROWS + b'{"value":[}]]}', rf"records\.{MANY}: .*JSON"),
        (b'{"records":[' + ROWS + b'{"value":1}', "do not end"),
        (b'{"records":[' + ROWS + b'{"value":1}]}]', "follows the records"),
        (b'{"records":[' + ROWS + b'{"value":1}],"more":1}', "follows the records"),
        (b'{"more":1,"records":[' + ROWS + b'{"value":1}]}', "begin with its records"),
        (b'{"records":[' + ROWS + b'{"value":"\xff"}]}', rf"records\.{MANY}: .*JSON"),
        (b'{"records":[' + ROWS * 2 + b'{"value":1}]}', f"at most {RECORDS_MAX}"),
    ],
)
def test_what_is_wrong_in_a_large_body_is_one_clear_error(body: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        append_body(body)
