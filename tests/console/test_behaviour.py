"""What holds for the console as a whole: copying, the keyboard, drift, many topics, a log that goes away, strangers."""

from __future__ import annotations

import sqlite3
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.tokens import grants_of, new_token, write_tokens
from mainstem.testing.embedded import EmbeddedBroker
from tests.console.stage import Stage, gateway
from tests.support.ports import free_port

if TYPE_CHECKING:
    from tests.console.conftest import Open
    from tests.support.browser import NewPage

pytestmark = pytest.mark.browser


def test_a_click_copies_a_position(open_at: Open, stage: Stage) -> None:
    page = open_at("/console/views/con-by-key")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("button.position", has_text="con-flights/0:").first.click()
    page.get_by_text("Copied").wait_for(state="attached")
    assert page.evaluate("navigator.clipboard.readText()") == str(stage.flights)


def test_the_keyboard_alone_asks_a_view(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views")
    page.get_by_role("link", name="con-by-key").wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Find a view")).to_be_focused()
    page.get_by_role("link", name="con-by-key").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Key (empty: all)").focus()
    page.keyboard.type("F0007")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="F0007").first).to_be_visible()


def test_escape_leaves_a_rebuild_that_was_not_meant(open_at: Open) -> None:
    page = open_at("/console/views/con-by-key")
    page.get_by_role("button", name="Rebuild …").click()
    page.get_by_role("button", name="Leave it").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Leave it").wait_for(state="hidden")


def test_the_colors_are_chosen_and_kept(open_at: Open) -> None:
    page = open_at("/console/groups", color_scheme="light")
    page.wait_for_function("document.body.classList.contains('body--light')")
    for _ in range(2):  # auto, light, dark
        page.locator("#theme").click()
    page.wait_for_function("document.body.classList.contains('body--dark')")
    page.reload()
    page.wait_for_function("document.body.classList.contains('body--dark')")


def test_verify_finds_a_row_that_somebody_else_changed(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con-routes")
    [store] = [path for path in stage.views.rglob("*") if path.is_file() and is_sqlite(path) and "routes" in str(path)]
    with sqlite3.connect(store, timeout=60) as database:
        database.execute("UPDATE edges SET target = 'XXX' WHERE source = 'EWR' AND target = 'MIA'")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text("Differs from the log").first).to_be_visible()
    expect(page.get_by_role("cell", name="EWR → MIA").first).to_be_visible()


def is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, str]]:
    """A log of its own with a hundred topics, and the address of its console."""
    with (
        EmbeddedBroker(tmp_path_factory.mktemp("busy"), port=free_port()) as broker,
        Log(broker.bootstrap, timeout_s=30.0) as log,
    ):
        for number in range(100):
            log.create_topic(f"con-many-{number:03d}", partitions=1)
        with gateway(broker.bootstrap, module="tests.console.hasty_gateway") as (url, _):
            yield broker, url


def test_a_hundred_topics_are_paged_and_searched(busy: tuple[EmbeddedBroker, str], new_page: NewPage) -> None:
    from playwright.sync_api import expect

    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto(busy[1] + "/")
    expect(page.get_by_role("link", name="more topics")).to_be_visible()
    page.goto(busy[1] + "/console/topics")
    expect(page.get_by_text("1-25 of 100")).to_be_visible()
    page.get_by_label("Find a topic").fill("many-077")
    expect(page.get_by_role("link", name="con-many-077")).to_be_visible()
    expect(page.get_by_role("link", name="con-many-000")).to_have_count(0)


def test_a_token_is_asked_for_and_kept_for_the_tab(
    busy: tuple[EmbeddedBroker, str], new_page: NewPage, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    token, secret = new_token("reader", grants_of(["*"], [], []))
    write_tokens(tmp_path / "tokens.json", [token])
    with gateway(busy[0].bootstrap, tokens=tmp_path / "tokens.json") as (url, _):
        page = new_page(viewport={"width": 1280, "height": 800})
        page.goto(url + "/console/topics")
        page.get_by_label("Bearer token").fill(secret)
        page.get_by_label("Bearer token").press("Enter")
        expect(page.get_by_role("link", name="con-many-000")).to_be_visible()
        page.goto(url + "/")
        expect(page.get_by_role("link", name="more topics")).to_be_visible()
        page.get_by_text("The requests of this page").click()
        expect(page.locator(".requests code").first).to_contain_text('"Authorization: Bearer $TOKEN"')
        assert secret not in page.content()


def test_a_log_that_goes_away_is_told_and_heals(busy: tuple[EmbeddedBroker, str], new_page: NewPage) -> None:
    from playwright.sync_api import expect

    broker, url = busy
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto(url + "/console/topics")
    expect(page.get_by_role("link", name="con-many-000")).to_be_visible()
    broker.stop()
    expect(page.locator(".banner")).to_contain_text("Trying again by itself")
    broker.start()
    expect(page.locator(".banner")).to_be_hidden()


def test_nothing_is_loaded_from_elsewhere(stage: Stage, new_page: NewPage) -> None:
    page = new_page()
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urllib.parse.urlsplit(request.url).hostname or "data"))
    page.on("websocket", lambda websocket: hosts.add(urllib.parse.urlsplit(websocket.url).hostname or ""))
    for path in ("/", "/console/pipelines/con-count", "/console/views/con_table"):
        page.goto(stage.url + path)
        page.locator("#theme").wait_for()
        page.wait_for_load_state("networkidle" if path == "/" else "load")
    assert hosts <= {"127.0.0.1", "data"}


def handshake(stage: Stage, **headers: str) -> int:
    """The status that a request to open the console's websocket is answered with."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    url = stage.url + "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    with httpx.Client(trust_env=False, timeout=60) as client:
        with client.stream("GET", url, headers={**upgrade, **headers}) as answer:
            return answer.status_code


def test_a_websocket_of_another_page_is_refused(stage: Stage) -> None:
    assert handshake(stage, Origin=stage.url) == 101
    assert handshake(stage, Origin="http://evil.example") == 403
    assert handshake(stage, Origin="http://evil.example", Host="evil.example") == 421


def test_the_console_takes_requests_for_pages_alone(stage: Stage) -> None:
    with httpx.Client(base_url=stage.url, trust_env=False, timeout=60) as client:
        assert client.get("/_nicegui_ws/socket.io/?EIO=4&transport=polling").status_code == 404
        assert client.post("/console/topics").status_code == 405
        assert client.get("/redoc").headers["content-type"] == "application/problem+json"
        page = client.get("/")
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
