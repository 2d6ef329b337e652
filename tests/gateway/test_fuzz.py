"""Random requests: every answer is a success or a problem document, and never a 500."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mainstem.client.log import Log

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
_RECORD = st.fixed_dictionaries(
    {"value": _JSON},
    optional={"key": st.text() | _JSON, "headers": _JSON, "partition": st.integers(), "timestamp_ms": st.integers()},
)
_WORDS = st.text() | st.sampled_from(["earliest", "latest", "0", "fuzz/0:0", "2013-01-01T00:00:00Z"])
_QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def fuzz_topic(session_log: Log) -> str:
    session_log.create_topic("fuzz", partitions=2)
    return "fuzz"


def is_fine(answer: httpx.Response) -> None:
    assert answer.status_code < 500, (answer.request.url, answer.request.content, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code


@_QUIET
@given(records=st.lists(_RECORD, max_size=3))
@example(records=[{"value": 1e308 * 10}])
def test_any_records_are_appended_or_refused(api: httpx.Client, fuzz_topic: str, records: Any) -> None:
    import json

    body = json.dumps({"records": records}).encode(errors="surrogatepass")
    is_fine(api.post(f"/topics/{fuzz_topic}/records", content=body, headers={"content-type": "application/json"}))


@_QUIET
@given(body=st.binary(max_size=200))
def test_any_bytes_as_a_body_are_refused(api: httpx.Client, fuzz_topic: str, body: bytes) -> None:
    answer = api.post(f"/topics/{fuzz_topic}/records", content=body, headers={"content-type": "application/json"})
    is_fine(answer)
    assert answer.status_code >= 400


@_QUIET
@given(start=_WORDS, end=_WORDS, key=st.text(), limit=st.integers() | st.text())
def test_any_place_is_read_or_refused(
    api: httpx.Client, fuzz_topic: str, start: str, end: str, key: str, limit: Any
) -> None:
    query = f"from={quote(start)}&to={quote(end)}&key={quote(key)}&limit={quote(str(limit))}"
    is_fine(api.get(f"/topics/{fuzz_topic}/records?{query}"))


@_QUIET
@given(path=st.lists(st.text(min_size=1), max_size=4), method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
def test_any_path_is_answered(api: httpx.Client, path: list[str], method: str) -> None:
    is_fine(api.request(method, "/" + "/".join(quote(part, safe="") for part in path)))
