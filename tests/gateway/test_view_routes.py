"""Views over HTTP: the same routes, asked of a view host's socket and through the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.pipelines.deploy import deploy
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served

ROWS = [
    {"id": "a/1", "name": "Ada Lovelace", "friend": "b"},
    {"id": "b", "name": "Bob é", "friend": "c"},
    {"id": "c", "name": "Carol", "friend": None},
]


def declared() -> ms.App:
    app = ms.App("gateway-tests")
    people = app.topic("people", schema="id STRING NOT NULL, name STRING, friend STRING", key="id", compacted=True)
    app.topic("elsewhere", schema="id STRING", key="id")
    app.view("by-id", people, ms.KeyValue())
    app.view("table", people, ms.SQL())
    app.view("names", people, ms.Search("name"))
    app.view("figures", people, ms.Metrics(by=("friend",)))
    app.view("friends", people, ms.Graph(source="id", target="friend"))
    return app


@pytest.fixture(scope="module")
def position(session_log: Log, mainstem_broker: EmbeddedBroker) -> Position:
    deploy(declared(), session_log)
    session_log.append("elsewhere", {"id": "x"}, key="x")
    return session_log.append_many("people", [(row["id"], row) for row in ROWS])


@pytest.fixture(scope="module")
def host_socket(
    position: Position, mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("views")
    views = tuple(declared().views.values())
    with ViewHost(views, mainstem_broker.bootstrap, directory) as host:
        for view in views:
            host.wait(view.name, lambda status: status.state != "starting", 120)
        with listening_on(create_host_app(host), listen_unix(directory / "s")):
            yield directory / "s"


@pytest.fixture(scope="module", params=["gateway", "host"])
def api(request: pytest.FixtureRequest, host_socket: Path, session_log: Log) -> Iterator[httpx.Client]:
    if request.param == "host":
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(host_socket)), base_url="http://localhost", timeout=30
        ) as client:
            yield client
        return
    with served(create_app(session_log, ForwardingBackend([host_socket]), GatewayLimits())) as client:
        yield client


def asked(api: httpx.Client, path: str, position: Position, **query: Any) -> list[dict[str, Any]]:
    answer = api.get(f"/views/{path}", params={"at_least": str(position), **query})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Mainstem-Position"] == answer.json()["position"]
    assert Position.parse(answer.json()["covers"]).covers(position)
    rows: list[dict[str, Any]] = answer.json()["rows"]
    return rows


def is_problem(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["type"] == f"/problems/{slug}"
    return document


def test_a_key_is_got(api: httpx.Client, position: Position) -> None:
    assert [row["name"] for row in asked(api, "by-id/keys/b", position)] == ["Bob é"]


def test_a_key_with_a_slash_is_got(api: httpx.Client, position: Position) -> None:
    assert [row["name"] for row in asked(api, "by-id/keys/a%2F1", position)] == ["Ada Lovelace"]


def test_an_answer_is_at_most_so_far_behind_the_log(api: httpx.Client, session_log: Log, position: Position) -> None:
    end = session_log.append("people", {"id": "d", "name": "Dora"}, key="d")
    answer = api.get("/views/by-id/keys/d", params={"max_lag_ms": 0, "timeout": 60})
    assert [row["name"] for row in answer.json()["rows"]] == ["Dora"]
    assert Position.parse(answer.json()["position"]).covers(end)
    end = session_log.append("people", None, key="d")
    assert asked(api, "by-id/keys/d", end) == []


def test_a_past_state_is_asked_by_position_and_by_time(api: httpx.Client, position: Position) -> None:
    asked(api, "by-id/keys/b", position)
    nothing = Position(dict.fromkeys(Position.parse(api.get("/views/by-id").json()["position"]), 0))
    for as_of, rows in ((str(nothing), 0), ("1", 0), ("1999-12-31T23:59:59Z", 0), ("2999-01-01T00:00:00+02:00", 1)):
        answer = api.get("/views/by-id/keys/b", params={"as_of": as_of, "timeout": 120})
        assert (answer.status_code, len(answer.json()["rows"])) == (200, rows), (as_of, answer.text)
    sql = {"query": 'SELECT count(*) AS n FROM "table"'}
    counted = api.post("/views/table/sql", params={"as_of": str(nothing), "timeout": 120}, json=sql)
    assert (counted.json()["rows"], counted.headers["Mainstem-Position"]) == ([{"n": 0}], str(nothing))


def test_what_changed_is_told(api: httpx.Client, position: Position) -> None:
    asked(api, "by-id/keys/b", position)
    answer = api.get("/views/by-id/diff", params={"from": "1", "limit": 2, "timeout": 120})
    assert answer.status_code == 200, answer.text
    assert [(row["key"], row["before"], row["after"]["id"]) for row in answer.json()["rows"]] == [
        ("a/1", None, "a/1"),
        ("b", None, "b"),
    ]
    assert (answer.json()["next"], answer.headers["Mainstem-Position"]) == ("b", answer.json()["to"])


def test_a_key_that_is_not_there_is_no_rows(api: httpx.Client, position: Position) -> None:
    assert asked(api, "by-id/keys/zz", position) == []


def test_a_range_of_keys_is_got(api: httpx.Client, position: Position) -> None:
    assert [row["id"] for row in asked(api, "by-id/keys", position, start="b")] == ["b", "c"]
    assert [row["id"] for row in asked(api, "by-id/keys", position, prefix="a", limit=5)] == ["a/1"]


def test_a_range_of_more_keys_than_its_limit_says_so_and_is_read_on(api: httpx.Client, position: Position) -> None:
    asked(api, "by-id/keys", position)
    seen = []
    after: str | None = None
    for _ in ROWS:
        answer = api.get("/views/by-id/keys", params={"limit": 1, **({} if after is None else {"after": after})}).json()
        seen.append((answer["rows"][0]["id"], answer["next"]))
        after = answer["next"]
    assert seen == [("a/1", "a/1"), ("b", "b"), ("c", None)]
    assert "next" not in api.get("/views/by-id/keys/b").json()


def test_a_view_s_client_reads_every_row_over_pages(api: httpx.Client, position: Position) -> None:
    if api.base_url.host == "localhost":
        pytest.skip("the client speaks to a gateway")
    view = ms.views(str(api.base_url))["by-id"]
    assert [row["id"] for row in view.scan(page_size=2, at_least=position)] == ["a/1", "b", "c"]
    assert [row["id"] for row in view.scan(page_size=1, start="b")] == ["b", "c"]
    assert list(view.scan(prefix="none")) == []
    first = view.range(limit=2)
    assert (first.next, view.range(limit=2, after=first.next).next) == ("b", None)


def test_sql_is_answered(api: httpx.Client, position: Position) -> None:
    answer = api.post(
        "/views/table/sql",
        params={"at_least": str(position)},
        json={
            "query": "SELECT count(*) AS n, 'nan'::DOUBLE AS nan, sum(1)::DECIMAL(9,2) AS d FROM \"table\" WHERE id<'d'"
        },
    )
    assert answer.json()["rows"] == [{"n": 3, "nan": None, "d": "3.00"}], answer.text


def test_figures_are_got_by_label_over_http(api: httpx.Client, position: Position) -> None:
    rows = asked(api, "figures/metrics", position, label="friend=b", series=True)
    assert [(row["labels"], row["records"]) for row in rows] == [({"friend": "b"}, 1)]
    assert rows[0]["series"][0]["records"] == 1
    assert asked(api, "figures/metrics", position, over="")[0]["records"] >= 3
    for wrong in ({"label": "friend"}, {"label": "name=b"}, {"quantile": "2"}, {"over": "name"}):
        is_problem(api.get("/views/figures/metrics", params=wrong), 400, "query")


def test_a_page_of_figures_is_prometheus_text(api: httpx.Client, position: Position) -> None:
    page = api.get("/views/figures/prometheus", params={"at_least": str(position)})
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert Position.parse(page.headers["Mainstem-Position"]).covers(position)
    assert 'figures_records_total{friend="b"} 1\n' in page.text
    is_problem(api.get("/views/by-id/prometheus"), 400, "query")


def test_a_search_is_answered(api: httpx.Client, position: Position) -> None:
    assert [row["id"] for row in asked(api, "names/search", position, q="lovelace")] == ["a/1"]


def test_neighbors_and_a_path_are_answered(api: httpx.Client, position: Position) -> None:
    assert [row["node"] for row in asked(api, "friends/neighbors", position, node="a/1", hops=2)] == ["b", "c"]
    path = asked(api, "friends/path", position, **{"from": "a/1", "to": "c"})
    assert [row["node"] for row in path] == ["a/1", "b", "c"]


def test_views_are_listed_and_described(api: httpx.Client, position: Position) -> None:
    assert asked(api, "by-id/keys/b", position)
    assert [view["name"] for view in api.get("/views").json()["views"]] == [
        "by-id",
        "table",
        "names",
        "figures",
        "friends",
    ]
    described = api.get("/views/by-id").json()
    assert (described["kind"], described["topic"], described["dead_letters"]) == ("key-value", "people", 0)
    assert Position.parse(described["position"]).covers(position)


def test_a_view_is_verified_and_rebuilt(api: httpx.Client, position: Position) -> None:
    assert asked(api, "by-id/keys/b", position)
    verified = api.post("/views/by-id/verify").json()
    assert verified["equal"]
    assert verified["records"] >= 3
    assert "confirm=by-id" in is_problem(api.delete("/views/by-id"), 400, "input")["detail"]
    assert api.delete("/views/by-id", params={"confirm": "by-id"}).json() == {"deleted": "by-id"}
    assert api.get("/views/by-id/keys/a").status_code == 503
    assert api.post("/views/by-id/rebuild").json()["records"] == verified["records"]


def test_a_position_not_reached_in_time_is_a_504_with_both_positions(
    api: httpx.Client, session_log: Log, position: Position
) -> None:
    end = session_log.append("people", {"id": "c", "name": "Carol", "friend": None}, key="c")
    answer = api.get("/views/by-id/keys/c", params={"at_least": str(end), "timeout": 0})
    if answer.status_code != 200:  # the view may be that fast
        document = is_problem(answer, 504, "position-timeout")
        assert (document["wanted"], set(document) >= {"reached"}) == (str(end), True)


@pytest.mark.parametrize(
    ("at_least", "slug"),
    [
        ("people/0:99999", "position"),
        ("people/7:1", "position"),
        ("nope/0:1", "position"),
        ("elsewhere/0:1", "position"),
        ("people", "position-format"),
        ("people/0:-1", "position-format"),
        ("people/0:1,people/0:2", "position-format"),
    ],
)
def test_a_position_that_can_never_be_reached_is_refused_at_once(api: httpx.Client, at_least: str, slug: str) -> None:
    is_problem(api.get("/views/by-id/keys/b", params={"at_least": at_least}), 400, slug)


@pytest.mark.parametrize(
    "query",
    [
        'DELETE FROM "table"',
        'INSERT INTO "table" VALUES (1)',
        "COPY \"table\" TO '/tmp/x.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT 1; SELECT 2",
        "SELEC 1",
        "",
        "SELECT * FROM nope",
        "ATTACH '/tmp/x.db'",
    ],
)
def test_a_query_that_is_wrong_or_would_write_is_refused(api: httpx.Client, query: str) -> None:
    is_problem(api.post("/views/table/sql", json={"query": query}), 400, "query")


def test_a_query_that_never_ends_is_ended(api: httpx.Client) -> None:
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
    answer = api.post("/views/table/sql", json={"query": endless, "timeout_s": 0.2})
    is_problem(answer, 400, "query")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nope", 404),
        ("nope/keys/a", 404),
        ("by-id/keys?limit=0", 400),
        ("by-id/keys?limt=1", 400),
        ("by-id/keys/a?timeout=-1", 400),
        ("by-id/keys/a?timeout=nan", 400),
        ("by-id/keys/a?timeout=1e9", 400),
        ("by-id/keys/a?max_lag_ms=-1", 400),
        ("by-id/keys/a?as_of=yesterday", 400),
        ("by-id/diff", 400),
        ("by-id/diff?from=now", 400),
        ("by-id/diff?from=1&limit=0", 400),
        ("names/diff?from=1", 400),
        ("by-id/keys/a?as_of=", 400),
        ("by-id/keys/a?as_of=-5", 400),
        ("by-id/keys/a?as_of=people/0:x", 400),
        ("by-id/keys/a?as_of=elsewhere/0:1", 400),
        ("by-id/keys/a?as_of=people/0:99999", 400),
        ("by-id/keys/a?as_of=1&max_lag_ms=1", 400),
        ("names/search?q=a&as_of=1", 400),
        ("by-id/keys/a?max_lag_ms=soon", 400),
        ("by-id/search?q=a", 400),
        ("names/search", 400),
        ("names/search?q=name:", 400),
        ("names/search?q=(((", 400),
        ("friends/neighbors?node=a&hops=99", 400),
        ("friends/neighbors?node=a&direction=up", 400),
        ("friends/path?from=a", 400),
        ("by-id/nothing", 404),
    ],
)
def test_a_question_that_is_wrong_is_a_problem(api: httpx.Client, path: str, status: int) -> None:
    answer = api.get(f"/views/{path}")
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"query": 1}', b'{"query": "SELECT 1", "limit": 0}', b"\xff", b"[" * 15_000]
)
def test_a_body_that_is_wrong_is_a_problem(api: httpx.Client, body: bytes) -> None:
    answer = api.post("/views/table/sql", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_host_that_is_gone_is_a_503_that_says_so(session_log: Log, tmp_path: Path) -> None:
    with served(create_app(session_log, ForwardingBackend([tmp_path / "gone"]), GatewayLimits())) as api:
        answer = api.get("/views/by-id/keys/b")
    assert is_problem(answer, 503, "unavailable")["detail"].startswith("the view host does not answer")
    assert answer.headers["Retry-After"] == "1"


def test_the_socket_is_for_its_owner_only(host_socket: Path) -> None:
    assert host_socket.stat().st_mode & 0o777 == 0o600


def test_the_list_names_the_views_of_a_host_that_is_gone(
    session_log: Log, mainstem_broker: EmbeddedBroker, host_socket: Path, tmp_path: Path
) -> None:
    app = ms.App("gateway-tests-gone")
    app.view("gone", app.topic("gone-people", schema="id STRING NOT NULL", key="id"), ms.KeyValue())
    deploy(app, session_log)
    backend = ForwardingBackend([host_socket, tmp_path / "s"])
    with served(create_app(session_log, backend, GatewayLimits())) as api:
        with ViewHost(tuple(app.views.values()), mainstem_broker.bootstrap, tmp_path / "views") as host:
            host.wait("gone", lambda status: status.state == "live", 120)
            with listening_on(create_host_app(host), listen_unix(tmp_path / "s")):
                before = {each["name"]: each for each in api.get("/views").json()["views"]}
        (tmp_path / "s").unlink(missing_ok=True)
        after = {each["name"]: each for each in api.get("/views").json()["views"]}
        answer = api.get("/views/gone/keys/b")
    assert after.keys() == before.keys()
    assert after["gone"]["state"] == "host unreachable"
    assert "try again" in after["gone"]["detail"]
    assert after["gone"]["position"] == before["gone"]["position"]
    assert after["by-id"]["state"] == "live"
    is_problem(answer, 503, "unavailable")


def test_a_view_that_may_be_on_a_host_that_never_answered_is_a_503(
    session_log: Log, host_socket: Path, tmp_path: Path
) -> None:
    backend = ForwardingBackend([host_socket, tmp_path / "gone"])
    with served(create_app(session_log, backend, GatewayLimits())) as api:
        answer = api.get("/views/elsewhere/keys/b")
        served_here = api.get("/views/by-id")
    assert is_problem(answer, 503, "unavailable")["detail"].startswith("the view host does not answer")
    assert served_here.status_code == 200
