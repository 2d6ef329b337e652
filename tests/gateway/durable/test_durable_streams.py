"""Durable Streams over HTTP, where its own conformance suite does not look: what lies beneath, what is refused."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.errors import IndexNotReadyError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.log.key_index.key_index import KeyIndex
from tests.gateway.durable.conftest import CONFIGS
from tests.gateway.served import served

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
_NAMES = itertools.count(1)


@pytest.fixture
def stream(durable_topic: str) -> str:
    """The path of a stream that does not exist."""
    return f"/streams/{durable_topic}/a/b c/{next(_NAMES)}"


def test_a_stream_is_created_appended_to_read_and_closed(durable: httpx.Client, stream: str) -> None:
    created = durable.put(stream, headers=TEXT)
    assert (created.status_code, created.headers["content-type"]) == (201, "text/plain")
    assert durable.put(stream, headers=TEXT).status_code == 200
    assert durable.put(stream, headers=JSON).status_code == 409
    ends = [durable.post(stream, content=part, headers=TEXT).headers["stream-next-offset"] for part in ("ab", "c", "d")]
    assert ends == sorted(ends)
    assert durable.get(stream).text == "abcd"
    rest = durable.get(stream, params={"offset": ends[0]})
    assert (rest.text, rest.headers["stream-next-offset"], rest.headers["stream-up-to-date"]) == ("cd", ends[2], "true")
    assert durable.post(stream, headers={"Stream-Closed": "true"}).status_code == 204
    late = durable.post(stream, content="e", headers=TEXT)
    assert (late.status_code, late.json()["type"], late.headers["stream-closed"]) == (
        409,
        "/problems/stream-conflict",
        "true",
    )
    assert durable.get(stream, params={"offset": ends[2]}).headers["stream-closed"] == "true"
    assert durable.delete(stream).status_code == 204
    assert durable.get(stream).status_code == 404


def test_a_stream_is_the_records_of_its_key(durable: httpx.Client, stream: str, session_log: Log) -> None:
    durable.put(stream, headers=JSON)
    durable.post(stream, content='[{"a": 1}, 2]', headers=JSON)
    durable.post(stream, content='"x"', headers=JSON)
    assert durable.get(stream).json() == [{"a": 1}, 2, "x"]
    _, _, topic, key = stream.split("/", 3)
    assert [record.value for record in session_log.read_key(topic, key)] == [b"", b'[{"a": 1}, 2]', b'["x"]']


def test_an_answer_has_the_position_just_after_its_record(durable: httpx.Client, stream: str, session_log: Log) -> None:
    _, _, topic, key = stream.split("/", 3)
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    answers = [
        durable.put(stream, headers=TEXT),
        durable.post(stream, content="a", headers=TEXT | producer),
        durable.post(stream, content="a", headers=TEXT | producer),
        durable.put(stream, headers=TEXT),
    ]
    places = [f"{topic}/{each.partition}:{each.offset + 1}" for each in session_log.read_key(topic, key)]
    assert [each.headers["mainstem-position"] for each in answers] == [places[0], *places[1:] * 3]


def test_a_page_of_a_stream_cannot_run_as_a_page_of_this_server(durable: httpx.Client, stream: str) -> None:
    durable.put(stream, content="<script>alert(1)</script>", headers={"Content-Type": "text/html"})
    for answer in (durable.get(stream), durable.head(stream)):
        assert answer.headers["content-type"] == "text/html"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "headers", "query"),
    [
        ("PUT", {"Stream-TTL": "1", "Stream-Expires-At": "2030-01-01T00:00:00Z"}, {}),
        ("PUT", {"Stream-TTL": "-1"}, {}),
        ("PUT", {"Stream-Expires-At": "soon"}, {}),
        ("PUT", {"Stream-Fork-Offset": "-1"}, {}),
        ("POST", {"Producer-Id": "p"}, {}),
        ("POST", {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "9" * 30}, {}),
        ("POST", {"Stream-Seq": "s" * 300}, {}),
        ("POST", {"Content-Type": "application/json"}, {}),
        ("GET", {}, {"offset": "elsewhere"}),
        ("GET", {}, {"offset": "9" * 16 + "_" + "9" * 19}),
        ("GET", {}, {"live": "sse"}),
        ("GET", {}, {"offset": "-1", "live": "radio"}),
    ],
)
def test_what_is_wrong_is_one_clear_problem(
    durable: httpx.Client, stream: str, method: str, headers: dict[str, str], query: dict[str, str]
) -> None:
    durable.put(stream, headers=JSON)
    content = "{" if method == "POST" else None
    answer = durable.request(method, stream, headers=headers, params=query, content=content)
    assert answer.status_code in (400, 409)
    assert "\n" not in answer.json()["detail"]


def test_a_topic_without_a_key_index_has_no_streams(durable: httpx.Client, session_log: Log) -> None:
    session_log.create_topic("no-streams", partitions=1, exist_ok=True)
    answer = durable.put("/streams/no-streams/k", headers=TEXT)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/unsupported-feature")
    assert "key.index" in answer.json()["detail"]
    assert durable.get("/streams/not-there/k").json()["type"] == "/problems/unknown-topic"


def test_while_the_key_index_is_being_built_a_stream_is_temporarily_unavailable(
    durable: httpx.Client, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unbuilt(*_: object) -> list[int]:
        raise IndexNotReadyError("the key index is being built: try again later")

    with monkeypatch.context() as patched:
        patched.setattr(KeyIndex, "offsets", unbuilt)
        answers = [durable.put(stream, headers=TEXT), durable.get(stream), durable.head(stream)]
    assert [each.status_code for each in answers] == [503] * 3
    assert answers[0].json()["type"] == "/problems/index-not-ready"
    assert "is being built" in answers[0].json()["detail"]
    assert durable.put(stream, headers=TEXT).status_code == 201


def test_a_key_that_other_writers_use_is_no_stream(durable: httpx.Client, durable_topic: str, session_log: Log) -> None:
    session_log.append(durable_topic, "mine", key="not-a-stream")
    answer = durable.get(f"/streams/{durable_topic}/not-a-stream")
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/unsupported-feature")
    assert "was not written by /streams" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("event", "state"),
    [
        ("[", None),
        ('{"kind": "dance"}', None),
        ('{"kind": "append", "before": "1"}', None),
        ('{"kind": "append", "count": -1}', None),
        ('{"kind": "append", "producer": 5}', None),
        ('{"kind": "create"}', None),
        ('{"kind": "create", "config": {"content_type": "text/plain\\r\\nSet-Cookie: a=b"}}', None),
        ('{"kind": "create", "config": {"content_type": "text/plain\\n"}}', None),
        ('{"kind": "create", "config": {"content_type": "text/plain", "expires_ms": 9e99}}', None),
        ('{"kind": "touch"}', "{}"),
        ('{"kind": "touch"}', '{"config": {"content_type": "a\\nb"}, "origin": 0, "tail": [0, 0]}'),
        ('{"kind": "touch"}', '{"config": {"content_type": "a/b"}, "origin": 0, "tail": [0, 0], "producers": [1]}'),
        ('{"kind": "touch"}', '{"config": {"content_type": "a/b"}, "origin": 0, "tail": [-1, 0]}'),
    ],
)
def test_headers_that_another_writer_made_up_are_refused(
    durable: httpx.Client, stream: str, session_log: Log, event: str, state: str | None
) -> None:
    _, _, topic, key = stream.split("/", 3)
    headers = [("mainstem-stream-event", event.encode())]
    if state is not None:
        headers.append(("mainstem-stream-state", state.encode()))
    session_log.append(topic, "value", key=key, headers=headers)
    for answer in (durable.get(stream), durable.put(stream, headers=TEXT), durable.post(stream, content="a")):
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/unsupported-feature")
    assert "was not written by /streams" in durable.get(stream).json()["detail"]


@pytest.mark.parametrize("key", ["\U0001253b", "a?b#c%2F", "x/\n/é"])
def test_the_location_of_a_new_stream_leads_to_it(durable: httpx.Client, durable_topic: str, key: str) -> None:
    created = durable.put(f"/streams/{durable_topic}/{quote(key)}", content="data", headers=TEXT)
    assert created.status_code == 201
    assert durable.get(created.headers["location"]).text == "data"


@pytest.mark.parametrize("record_offset", [999_999, 2**63 - 1])
def test_an_offset_beyond_the_log_is_refused(durable: httpx.Client, stream: str, record_offset: int) -> None:
    durable.put(stream, content="abc", headers=TEXT)
    refused = durable.get(stream, params={"offset": f"{9:016}_{record_offset:019}"})
    assert (refused.status_code, "is not one of this stream" in refused.json()["detail"]) == (400, True)


def test_data_that_retention_took_is_gone_and_the_rest_is_read(durable: httpx.Client, session_log: Log) -> None:
    session_log.create_topic("durable-short", partitions=1, configs=CONFIGS, exist_ok=True)
    stream = f"/streams/durable-short/{next(_NAMES)}"
    durable.put(stream, headers=TEXT)
    ends = [durable.post(stream, content=part, headers=TEXT).headers["stream-next-offset"] for part in ("ab", "c", "d")]
    kept = [record.offset for record in session_log.read("durable-short")][-2]
    session_log.cluster_admin.delete_records("durable-short", kept)
    gone = durable.get(stream)
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/stream-removed")
    assert "retention has removed" in gone.json()["detail"]
    assert durable.get(stream, params={"offset": "now"}).status_code == 200
    assert durable.get(stream, params={"offset": ends[0]}).text == "cd"


def test_two_gateways_append_to_one_stream_and_each_append_is_there_once(
    durable: httpx.Client, stream: str, session_log: Log
) -> None:
    with served(create_app(session_log, ForwardingBackend([]), GatewayLimits())) as other:
        durable.put(stream, headers=JSON)

        def append(writer: int) -> list[str]:
            client, ends = (durable, other)[writer % 2], []
            for number in range(12):
                answer = client.post(stream, content=f'"{writer}-{number}"', headers=JSON)
                while answer.status_code == 503:  # others were faster, again and again
                    answer = client.post(stream, content=f'"{writer}-{number}"', headers=JSON)
                assert answer.status_code == 204, answer.text
                ends.append(answer.headers["stream-next-offset"])
            return ends

        with ThreadPoolExecutor(4) as threads:
            ends = list(threads.map(append, range(4)))
        found = other.get(stream).json()
    assert sorted(found) == sorted(f"{writer}-{number}" for writer in range(4) for number in range(12))
    for writer in range(4):
        assert [text for text in found if text.startswith(f"{writer}-")] == [f"{writer}-{n}" for n in range(12)]
    assert len({end for each in ends for end in each}) == 48


def test_many_readers_follow_streams_of_one_topic_and_each_gets_its_own(
    durable: httpx.Client, durable_topic: str
) -> None:
    paths = [f"/streams/{durable_topic}/followed/{number}" for number in range(20)]
    ends = [durable.put(path, headers=TEXT).headers["stream-next-offset"] for path in paths]
    began = threading.Barrier(len(paths) + 1)

    def follow(index: int) -> str:
        with httpx.Client(base_url=durable.base_url, timeout=60, trust_env=False) as client:
            began.wait(60)
            offset, text = ends[index], ""
            while len(text) < 2:
                answer = client.get(paths[index], params={"offset": offset, "live": "long-poll"})
                assert answer.status_code in (200, 204)
                offset, text = answer.headers["stream-next-offset"], text + answer.text
            return text

    with ThreadPoolExecutor(len(paths)) as threads:
        found = threads.map(follow, range(len(paths)))
        began.wait(60)
        for letter in "xy":
            for index, path in enumerate(paths):
                durable.post(path, content=letter if index % 2 else letter.upper(), headers=TEXT)
        assert list(found) == ["xy" if index % 2 else "XY" for index in range(len(paths))]
