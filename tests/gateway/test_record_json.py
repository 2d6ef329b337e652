"""Records as JSON: what nests without end is shown as the text that it is, and harms no answer."""

from __future__ import annotations

import json

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.http.json_responses import json_bytes, records_response
from mainstem.json_depth import DEPTH_MAX
from mainstem.model import Position
from tests.gateway.sse import reading


def nested(depth: int, inner: str = "") -> str:
    return "[" * depth + inner + "]" * depth


@pytest.mark.parametrize("text", [nested(970), nested(700, "1e999"), '{"a":' * 600 + "1" + "}" * 600])
def test_a_record_that_nests_deeply_harms_no_read_and_no_stream(
    api: httpx.Client, session_log: Log, mainstem_topic: str, text: str
) -> None:
    session_log.append_many(mainstem_topic, [(None, text), (None, "next")])
    read = api.get(f"/topics/{mainstem_topic}/records")
    assert read.status_code == 200, read.text
    assert [record["value"] for record in read.json()["records"]] == [text, "next"]
    with reading(api, f"/topics/{mainstem_topic}/stream", from_="earliest") as stream:
        assert [event.data["value"] for event in stream.take(2)] == [text, "next"]


def test_what_nests_no_deeper_than_the_bound_comes_as_json(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    brackets_in_text = json.dumps(["[" * 10 * DEPTH_MAX, '\\"[' * DEPTH_MAX])
    many_side_by_side = "[" + ",".join(["[]"] * 10 * DEPTH_MAX) + "]"
    texts = [nested(DEPTH_MAX), nested(DEPTH_MAX + 1), brackets_in_text, many_side_by_side]
    session_log.append_many(mainstem_topic, [(None, text) for text in texts])
    shown = [record["value"] for record in api.get(f"/topics/{mainstem_topic}/records").json()["records"]]
    assert shown == [json.loads(nested(DEPTH_MAX)), texts[1], json.loads(brackets_in_text), [[]] * 10 * DEPTH_MAX]


def test_what_json_cannot_say_is_null_however_deep_it_lies() -> None:
    document = json.loads('{"a": [1e999, {"b": NaN}], "c": ' + nested(DEPTH_MAX, "-1e999") + "}")
    said = json.loads(json_bytes(document))
    assert said["a"] == [None, {"b": None}]
    assert json.dumps(said["c"]) == nested(DEPTH_MAX, "null")


def test_records_are_written_one_by_one_into_one_document() -> None:
    position = Position.of("t", 0, 2)
    for records in ([], [{"value": 1}], [{"value": float("nan")}, {"value": "é"}]):
        written = records_response({"topic": "t", "key": "k"}, records, position)
        shown = [{"value": None}, {"value": "é"}] if len(records) == 2 else records
        expected = {"topic": "t", "key": "k", "position": "t/0:2", "records": shown}
        assert json.loads(bytes(written.body)) == expected
        assert written.headers["Mainstem-Position"] == "t/0:2"
