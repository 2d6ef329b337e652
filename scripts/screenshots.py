"""Takes the documentation's pictures of the console: ``make screenshots`` writes them into ``docs/images``.

It runs the demo, and opens each page of ``PICTURES`` in Chromium when the demo is complete. So the pictures show what a
reader of the README sees. Give an address to take them from a node that runs the demo already:
``make screenshots ARGS=http://127.0.0.1:8080``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.browser import chromium_path

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
_DEMO_TIMEOUT_S: Final = 900
_STOP_TIMEOUT_S: Final = 60
_PAGE_TIMEOUT_MS: Final = 60_000
_WIDTH: Final = 1280
_HEIGHT: Final = 800
_SETTLED_MS: Final = 3_000  # two refreshes of a page: rates and charts are drawn by then

Act = Callable[["Page"], None]
"""What is done on a page before its picture."""


def _open_a_record(page: Page) -> None:
    page.locator("details.record summary").first.click()


def _run_a_query(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator(".content table").first.wait_for()


def _nothing(_: Page) -> None:
    return


_QUERY: Final = "SELECT+carrier,+avg(dep_delay)+AS+delay+FROM+flights+GROUP+BY+carrier+ORDER+BY+delay+DESC"
PICTURES: Final[dict[str, tuple[str, Act]]] = {
    "console": ("/", _nothing),
    "topic": ("/console/topics/flights", _open_a_record),
    "pipeline": ("/console/pipelines/enrich", _nothing),
    "workbench": (f"/console/sql?view=flights&q={_QUERY}", _run_a_query),
}
"""Each picture's name, the page's address, and what is done there first."""


@contextmanager
def _demo() -> Iterator[str]:
    """The demo, complete and running: the address of its console."""
    with tempfile.TemporaryDirectory() as directory:
        argv = [sys.executable, "-m", "mainstem.cli.start", "demo", "--data", str(Path(directory) / "demo")]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            yield _console_of(process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _console_of(process: subprocess.Popen[str]) -> str:
    """The address that the demo prints when it is complete. Raises RuntimeError if it ends before."""
    assert process.stdout is not None
    watchdog = signal.signal(signal.SIGALRM, lambda *_: process.kill())
    signal.alarm(_DEMO_TIMEOUT_S)
    try:
        for line in process.stdout:
            sys.stdout.write(line)
            if line.startswith("The console: "):
                return line.removeprefix("The console: ").strip().rstrip("/")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, watchdog)
    raise RuntimeError(f"the demo ended before it was complete (exit status {process.wait()}); its output is above")


def take(url: str) -> None:
    """Write each picture of the console at ``url``."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        size = {"width": _WIDTH, "height": _HEIGHT}
        for name, (path, act) in PICTURES.items():
            page = browser.new_page(viewport=size, color_scheme="light")  # type: ignore[arg-type]
            page.set_default_timeout(_PAGE_TIMEOUT_MS)
            page.goto(url + path)
            page.wait_for_function("window.did_handshake")
            act(page)
            page.wait_for_timeout(_SETTLED_MS)
            page.screenshot(path=IMAGES / f"{name}.png")
            page.close()
            sys.stdout.write(f"wrote docs/images/{name}.png\n")
        browser.close()


def main() -> None:
    """Take the pictures from the node that is named, else from a demo of its own."""
    if len(sys.argv) > 1:
        take(sys.argv[1].rstrip("/"))
        return
    with _demo() as url:
        take(url)


if __name__ == "__main__":
    main()
