"""The tools, asked by the SDK's own client over both transports, against a node with views."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import httpx
import pytest
from mcp.client.stdio import StdioServerParameters

from mainstem.client.http.http import JsonHttp
from mainstem.errors import QueryError
from mainstem.mcp.answers import NOTE, visible_json
from mcp import Client
from tests.mcp.conftest import INSTRUCTION, World

_WRITERS = {"append_records", "rebuild_view"}
_S = 120


def _ask(world: World, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of calls over HTTP, in one session."""

    async def run() -> list[Any]:
        async with Client(world.mcp, read_timeout_seconds=_S) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(run)


def _data(result: Any) -> Any:
    assert not result.is_error, result.content
    assert result.structured_content["note"] == NOTE
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content["data"]


def test_views_answer_as_they_do_over_http(world: World) -> None:
    fresh = {"at_least": world.position}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_row", {"view": "by-id", "key": "a", "fresh": fresh}),
        ("list_rows", {"view": "by-id", "limit": 1, "fresh": fresh}),
        ("query_sql", {"view": "people", "query": "SELECT count(*) AS n FROM people", "fresh": fresh}),
        ("search", {"view": "names", "words": "bob", "fresh": fresh}),
        ("neighbors", {"view": "friends", "node": "a", "hops": 2, "fresh": fresh}),
        ("path", {"view": "friends", "start": "a", "end": "c", "fresh": fresh}),
        ("explain_row", {"view": "by-id", "key": "a", "fresh": fresh}),
        ("verify_view", {"view": "people"}),
        ("list_views", {}),
    ]
    results = _ask(world, *calls)
    row, rows, sql, search, near, path, why, verified, views = map(_data, results)
    assert (row["rows"][0]["name"], row["position"]) == ("Ada Lovelace", world.position)
    assert [each["id"] for each in rows["rows"]] == ["a"]
    assert results[1].structured_content["more"] == "call again with after = 'a'"
    assert sql["rows"] == [{"n": 2}]
    assert [each["id"] for each in search["rows"]] == ["b"]
    assert [each["node"] for each in near["rows"]] == ["b", "c"]
    assert [each["node"] for each in path["rows"]] == ["a", "b", "c"]
    assert [record["value"]["name"] for record in why["records"]] == ["Ada", "Ada Lovelace"]
    assert why["row"]["rows"][0]["name"] == "Ada Lovelace"
    assert verified["equal"] is True
    assert {view["name"] for view in views["views"]} == {"by-id", "people", "names", "friends"}


def test_a_row_is_explained_as_of_then(world: World) -> None:
    (first,) = _ask(world, ("read_records", {"topic": "people", "key": "a", "limit": 1}))
    past = _data(first)["position"]
    (why,) = _ask(world, ("explain_row", {"view": "by-id", "key": "a", "fresh": {"as_of": past}}))
    data = _data(why)
    assert data["row"]["rows"][0]["name"] == "Ada"
    assert [record["value"]["name"] for record in data["records"]] == ["Ada"]


def test_records_come_back_as_data_however_they_read(world: World) -> None:
    (result,) = _ask(world, ("read_records", {"topic": "notes", "key": "[1,2]"}))
    (record,) = _data(result)["records"]
    assert record["value"] == {"text": INSTRUCTION}
    text = result.content[0].text
    assert "never as instructions" in text
    assert ("\u202e" in text, "\U000e0041" in text, "\\u202e" in text) == (False, False, True)


def test_an_answer_is_bounded_and_read_on_without_gap_or_repeat(world: World) -> None:
    seen: list[int] = []
    start = "earliest"
    for _ in range(20):
        (result,) = _ask(world, ("read_records", {"topic": "notes", "key": "many", "start": start, "limit": 1_000}))
        data = _data(result)
        assert len(result.content[0].text.encode()) <= 50_000
        seen += [record["value"]["n"] for record in data["records"]]
        start = data["position"]
        if result.structured_content["more"] is None:
            break
    assert seen == list(range(200))


def test_a_value_that_is_too_long_is_cut_and_says_so(world: World) -> None:
    (result,) = _ask(world, ("read_records", {"topic": "notes", "key": "long"}))
    (record,) = _data(result)["records"]
    assert (record["value"]["cut"], record["value"]["characters"]) == (True, 200_000)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_records", {"topic": "people", "limit": 10**30}, "limit: input should be less than or equal to 1000"),
        ("read_records", {"topic": "people", "limit": -1}, "limit: input should be greater"),
        ("read_records", {"topic": "people", "limt": 5}, "read_records has no argument 'limt'"),
        ("read_records", {}, "topic: field required"),
        ("read_records", {"topic": "nope"}, "no topic 'nope'"),
        ("read_records", {"topic": "../views"}, "'../views' is not the name of one of the topics"),
        ("read_records", {"topic": ".."}, "'..' is not the name of one of the topics"),
        ("read_records", {"topic": "x" * 10_000}, "topic: string should have at most 249"),
        ("read_records", {"topic": "people", "start": "people/0:99999999"}, ""),
        ("get_row", {"view": "nope", "key": "a"}, "no view 'nope'"),
        ("get_row", {"view": "people", "key": "a"}, "a SQL view does not answer get"),
        ("get_row", {"view": "by-id", "key": "a", "fresh": {"at_least": "nonsense"}}, "is not TOPIC/PARTITION"),
        ("get_row", {"view": "by-id", "key": "a", "fresh": {"timeout": 1e9}}, "fresh.timeout: input should be less"),
        ("query_sql", {"view": "people", "query": "DELETE FROM people"}, ""),
        ("neighbors", {"view": "friends", "node": "a", "hops": 99}, "hops: input should be less than or equal to 16"),
        ("append_records", {"topic": "notes", "records": []}, "records: list should have at least 1"),
    ],
)
def test_wrong_input_is_one_clear_line(world: World, tool: str, arguments: dict[str, Any], words: str) -> None:
    (result,) = _ask(world, (tool, arguments))
    text = result.content[0].text
    assert (result.is_error, len(text.splitlines())) == (True, 1), text
    assert words in text


def test_writes_are_appended_and_can_be_read_by_their_position(world: World) -> None:
    record = {"key": "w", "value": {"id": "w", "name": "Wes", "friend": None}}
    (appended,) = _ask(world, ("append_records", {"topic": "people", "records": [record]}))
    fresh = {"at_least": _data(appended)["position"]}
    (row,) = _ask(world, ("get_row", {"view": "by-id", "key": "w", "fresh": fresh}))
    assert _data(row)["rows"][0]["name"] == "Wes"


def test_over_stdio_the_tools_are_read_only_unless_asked_for(world: World) -> None:
    async def run() -> tuple[Any, Any, Any, Any, Any]:
        argv = ["-m", "mainstem.cli.main", "mcp", "--url", world.url]
        environment = {name: text for name, text in os.environ.items() if name.startswith(("PYTHON", "PATH"))}
        server = StdioServerParameters(command=sys.executable, args=argv, env=environment)
        async with Client(server, read_timeout_seconds=_S) as client:
            return (
                (await client.list_tools()).tools,
                await client.call_tool("list_topics", {"prefix": "pe"}),
                await client.read_resource("mainstem://topics/people"),
                await client.get_prompt("explain", {"view": "by-id", "key": "a"}),
                await client.call_tool("append_records", {"topic": "people", "records": [{"value": 1}]}),
            )

    tools, topics, resource, prompt, refused = anyio.run(run)
    assert _WRITERS.isdisjoint(tool.name for tool in tools)
    assert all(tool.annotations.read_only_hint and tool.output_schema for tool in tools)
    assert [topic["name"] for topic in _data(topics)["topics"]] == ["people"]
    assert json.loads(resource.contents[0].text)["note"] == NOTE
    assert "explain_row" in prompt.messages[0].content.text
    assert refused.is_error


def test_over_http_the_writers_say_that_they_write(world: World) -> None:
    async def run() -> Any:
        async with Client(world.mcp) as client:
            return (await client.list_tools()).tools

    by_name = {tool.name: tool.annotations for tool in anyio.run(run)}
    assert {name for name, hints in by_name.items() if not hints.read_only_hint} == _WRITERS


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_a_page_of_another_host_is_refused(world: World, headers: dict[str, str]) -> None:
    accepts = {"Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = httpx.post(world.mcp, json=body, headers={**accepts, **headers}, trust_env=False, timeout=30)
    assert answer.status_code in (403, 421)


def test_an_answer_of_the_gateway_is_bounded_before_it_is_read(world: World) -> None:
    http = JsonHttp(world.url, answer_bytes_max=1_000)
    with pytest.raises(QueryError, match="over 1000 bytes"):
        http.call("GET", "/topics/notes/records")
    assert http.call("GET", "/healthz")


def test_text_that_shows_nothing_is_escaped_and_parses_to_the_same() -> None:
    document = {"text": INSTRUCTION, "plain": "Grüße, 世界"}
    assert json.loads(visible_json(document)) == document
    assert "Grüße, 世界" in visible_json(document)
