"""``/client.js`` in Chromium: a page binds to a view and writes to the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.deploy import deploy
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPIC = "browser-module-notes"
CONFIGS = {"mainstem.key.index": "true", "mainstem.conditional.append": "true"}
_UNTIL = """
const until = (signal, wanted) => new Promise((resolve) => {
  const end = signal.subscribe((value, position) => { if (wanted(value)) resolve([value, position]); });
});
"""


@pytest.fixture(scope="module")
def host(session_log: Log, mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session_log.create_topic(TOPIC, partitions=2, configs=CONFIGS)
    app = ms.App("browser-module-tests")
    notes = app.topic(TOPIC, schema="id STRING NOT NULL, text STRING", key="id", partitions=2)
    app.view("browser-notes", notes, ms.KeyValue())
    deploy(app, session_log)
    views = tuple(app.views.values())
    with ViewHost(views, mainstem_broker.bootstrap, tmp_path_factory.mktemp("views")) as host:
        host.wait("browser-notes", lambda status: status.state == "live")
        yield host


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("socket") / "s"


@pytest.fixture(scope="module")
def gateway(session_log: Log, socket: Path) -> Iterator[httpx.Client]:
    with served(create_app(session_log, ForwardingBackend([socket]), GatewayLimits())) as client:
        yield client


@pytest.fixture
def serving(host: ViewHost, socket: Path) -> Iterator[None]:
    with listening_on(create_host_app(host), listen_unix(socket)):
        yield


@pytest.fixture
def at(page: Page, gateway: httpx.Client) -> Page:
    """A page of the gateway's own origin."""
    page.goto(f"{gateway.base_url}/healthz")
    return page


def run(page: Page, script: str, *arguments: Any) -> Any:
    """What an async function's body returns, with the module as ``ms``."""
    body = f"async (given) => {{ const ms = await import('/client.js'); {_UNTIL} {script} }}"
    return page.evaluate(body, list(arguments))


def test_a_page_reads_its_own_write(at: Page, serving: None) -> None:
    got = run(
        at,
        """const position = await ms.append(given[0], {key: "own", value: {id: "own", text: "é"}});
           return [position, await ms.get("browser-notes", "own", {atLeast: position})];""",
        TOPIC,
    )
    assert got[1]["row"] == {"_key": "own", "id": "own", "text": "é"}
    assert ms.Position.parse(got[1]["position"]).covers(ms.Position.parse(got[0]))


@pytest.mark.parametrize("key", [".", "..", "...", "a/../b", "%2e%2e"])
def test_a_key_of_dots_is_a_key(at: Page, serving: None, session_log: Log, key: str) -> None:
    position = session_log.append(TOPIC, {"id": key, "text": "dots"}, key=key)
    got = run(at, 'return await ms.get("browser-notes", given[0], {atLeast: given[1]});', key, str(position))
    assert got["row"] == {"_key": key, "id": key, "text": "dots"}


def test_a_signal_has_the_row_and_follows_it(at: Page, serving: None) -> None:
    got = run(
        at,
        """const live = ms.signal("browser-notes", "live");
           const seen = [];
           live.subscribe((row) => seen.push(row && row.text));
           await until(live, (row) => row === null);
           for (const text of ["one", "two"]) {
             await ms.append(given[0], {key: "live", value: {id: "live", text}});
             await until(live, (row) => row?.text === text);
           }
           await ms.append(given[0], {key: "live", value: null});
           await until(live, (row) => row === null);
           live.close();
           return seen;""",
        TOPIC,
    )
    assert got == [None, "one", "two", None]


def test_rows_of_a_prefix_are_one_live_map(at: Page, serving: None, session_log: Log) -> None:
    session_log.append_many(TOPIC, [(f"map/{n}", {"id": f"map/{n}", "text": "old"}) for n in range(3)])
    got = run(
        at,
        """const live = ms.rows("browser-notes", {prefix: "map/"});
           await until(live, (rows) => rows.size === 3);
           await ms.append(given[0], {key: "map/1", value: null});
           await ms.append(given[0], {key: "map/3", value: {id: "map/3", text: "new"}});
           const [rows] = await until(live, (rows) => rows.has("map/3") && !rows.has("map/1"));
           live.close();
           return [...rows.keys()].sort();""",
        TOPIC,
    )
    assert got == ["map/0", "map/2", "map/3"]


def test_a_signal_survives_its_view_host(at: Page, host: ViewHost, socket: Path, session_log: Log) -> None:
    start = """window.live = ms.signal("browser-notes", "tough");
               await until(window.live, (row) => row?.text === "before");"""
    session_log.append(TOPIC, {"id": "tough", "text": "before"}, key="tough")
    with listening_on(create_host_app(host), listen_unix(socket)):
        run(at, start)
    session_log.append(TOPIC, {"id": "tough", "text": "after"}, key="tough")
    with listening_on(create_host_app(host), listen_unix(socket)):
        run(at, """await until(window.live, (row) => row?.text === "after"); window.live.close();""")


def test_records_of_a_topic_are_followed(at: Page, serving: None, session_log: Log) -> None:
    for n in range(3):
        session_log.append(TOPIC, n, key="followed")
    got = run(
        at,
        """const seen = [];
           await new Promise((resolve) => {
             const live = ms.follow(given[0], (record, position) => {
               seen.push([record.value, position]);
               if (seen.length === 3) { live.close(); resolve(); }
             }, {from: "earliest", key: "followed"});
           });
           return seen;""",
        TOPIC,
    )
    assert [value for value, _ in got] == ["0", "1", "2"]
    assert got[-1][1].startswith(f"{TOPIC}/")


def test_what_is_refused_is_an_error_with_the_problems_fields(at: Page, serving: None) -> None:
    got = run(
        at,
        """const refused = await ms.append(given[0], {key: "c", value: 1}, {ifMatch: 99}).catch((error) => error);
           const unknown = await new Promise((resolve) => ms.signal("nope", "k", {onError: resolve}));
           return [refused, unknown].map((error) => [error instanceof ms.ProblemError, error.status, error.kind,
                                                     error.actual ?? null]);""",
        TOPIC,
    )
    assert got == [[True, 412, "condition-failed", -1], [True, 404, "unknown-view", None]]


def test_an_exception_of_the_pages_own_ends_what_it_listens_to(at: Page, serving: None, session_log: Log) -> None:
    session_log.append(TOPIC, "once", key="thrown")
    session_log.append(TOPIC, {"id": "thrown-row"}, key="thrown-row")
    got = run(
        at,
        """const calls = [];
           const fail = (what) => { calls.push(what); throw new RangeError(what); };
           const ended = (bind) => new Promise((resolve, reject) => {
             setTimeout(() => reject(new Error(`it goes on: ${calls}`)), 60000);
             const live = bind((error) => resolve([error, live]));
           });
           const [first, followed] = await ended((onError) =>
             ms.follow(given[0], () => fail("record"), {from: "earliest", key: "thrown", onError}));
           const [second, signal] = await ended((onError) => {
             const live = ms.signal("browser-notes", "thrown-row", {onError});
             live.subscribe(() => fail("row"));
             return live;
           });
           const isFirst = first instanceof RangeError && followed.error === first;
           return [calls, isFirst, followed.isConnected, second.message];""",
        TOPIC,
    )
    assert got == [["record", "row"], True, False, "row"]


def test_a_gateway_with_tokens_is_told_one(
    page: Page, serving: None, session_log: Log, socket: Path, tmp_path: Path
) -> None:
    token, text = new_token("page", Grants(read=("view:browser-notes",), write=(f"topic:{TOPIC}",)))
    write_tokens(tmp_path / "tokens.json", [token])
    app = create_app(
        session_log, ForwardingBackend([socket]), GatewayLimits(), tokens=TokenFile(tmp_path / "tokens.json")
    )
    with served(app) as gated:
        page.goto(f"{gated.base_url}/healthz")
        got = run(
            page,
            """const refused = await ms.get("browser-notes", "t").catch((error) => error.status);
               const own = new ms.Mainstem({token: async () => given[1]});
               const position = await own.append(given[0], {key: "t", value: {id: "t", text: "told"}});
               const live = own.signal("browser-notes", "t");
               const [row] = await until(live, (row) => row !== null);
               live.close();
               return [refused, row.text, (await own.get("browser-notes", "t", {atLeast: position})).row.text];""",
            TOPIC,
            text,
        )
    assert got == [401, "told", "told"]


def test_the_module_is_kept_and_asked_about(gateway: httpx.Client) -> None:
    sent = gateway.get("/client.js")
    assert sent.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (sent.headers["cache-control"], sent.headers["access-control-allow-origin"]) == ("no-cache", "*")
    again = gateway.get("/client.js", headers={"If-None-Match": f'"x", W/{sent.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert gateway.get("/client.js", headers={"If-None-Match": '"x"'}).status_code == 200
