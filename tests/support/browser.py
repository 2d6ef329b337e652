"""A pytest plugin: Debian's Chromium for any test, driven by Playwright.

``page`` is a page in a browser context of its own: no cookies, no storage, no cache of another test. ``new_page`` opens
more of them, each as somebody else, with Playwright's own options (``viewport``, ``color_scheme``, …). One Chromium
serves the whole session and starts with the first test that asks. Everything waits at most ``TIMEOUT_MS``. When a test
fails, a picture of each of its pages lies in its ``tmp_path``, and the report says where.

Playwright's synchronous API leaves its event loop marked as the running one of this thread, which would break every
later test that calls ``asyncio.run``. So the mark is set when a test's pages open and taken away when they are closed.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TIMEOUT_MS = 60_000
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
_PAGES = pytest.StashKey[list[Any]]()


class NewPage(Protocol):
    """Opens a page in a context of its own, which has these options."""

    def __call__(self, **options: Any) -> Page: ...


def chromium_path() -> str | None:
    """Where the system's Chromium is."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, for the whole session. Ask for ``page`` or ``new_page`` instead."""
    from playwright.sync_api import expect, sync_playwright

    path = chromium_path()
    if path is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    expect.set_options(timeout=TIMEOUT_MS)
    playwright = sync_playwright().start()
    try:
        launched = playwright.chromium.launch(
            executable_path=path, args=list(_ARGUMENTS), timeout=TIMEOUT_MS, chromium_sandbox=False
        )
        asyncio._set_running_loop(None)
        yield launched
        asyncio._set_running_loop(playwright._loop)
        launched.close()
    finally:
        asyncio._set_running_loop(playwright._loop)
        playwright.stop()
        asyncio._set_running_loop(None)


@pytest.fixture
def new_page(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewPage]:
    """Opens pages, each in a context of its own; all are closed when the test is over."""
    asyncio._set_running_loop(browser._loop)
    pages = request.node.stash.setdefault(_PAGES, [])

    def open_page(**options: Any) -> Page:
        context = browser.new_context(**options)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        pages.append(page)
        return page

    try:
        yield open_page
    finally:
        for page in pages:
            page.context.close()
        asyncio._set_running_loop(None)


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """One page, 1280 pixels wide."""
    return new_page(viewport={"width": 1280, "height": 800})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take pictures of what a failing test saw, while its pages are still open."""
    report = yield
    if call.when == "call" and report.failed:
        for path in _pictures(item):
            report.sections.append(("picture of the page", str(path)))
    return report


def _pictures(item: pytest.Item) -> Iterator[Path]:
    directory = getattr(item, "funcargs", {}).get("tmp_path")
    for number, page in enumerate(item.stash.get(_PAGES, [])):
        path = (directory or Path.cwd() / ".pytest_cache") / f"page-{number}.png"
        with suppress(Exception):  # the test has failed already: whatever is wrong with the page, its own error counts
            page.screenshot(path=path, timeout=10_000)
            yield path
