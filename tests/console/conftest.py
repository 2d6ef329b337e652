"""One stage for the whole session, and pages of its console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.console.stage import Stage, staged

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage

Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The log, the views and the console."""
    with staged(tmp_path_factory.mktemp("con")) as running:
        yield running


@pytest.fixture
def open_at(stage: Stage, new_page: NewPage) -> Open:
    """Opens a page of the console, ``wide`` pixels wide, and waits until it is connected."""

    def open_page(path: str, wide: int = 1280, **options: object) -> Page:
        page = new_page(viewport={"width": wide, "height": 800}, **options)
        page.goto(stage.url + path)
        page.locator("#theme").wait_for()
        page.wait_for_function("window.did_handshake")
        return page

    return open_page
