"""The frame of every page: skip link, navigation, banner, content, and the requests that the page made.

``Page`` is one browser's view of one page. It asks the gateway, remembers what it asked, and repeats
its refreshes while the browser is connected. An error of the gateway is shown as its problem's text in the banner,
until a refresh succeeds. Where the gateway asks for tokens, the page uses the one that its browser signed in with
(`console.sign_in`). Used by one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from nicegui import background_tasks, context, ui
from nicegui.element import Element

from mainstem.console import palette
from mainstem.console.gateway_client import POLL_S, GatewayClient, GatewayError
from mainstem.console.health.chip import chip, keep_fresh
from mainstem.console.parts import link, text
from mainstem.console.requests import ConsoleRequest, forms
from mainstem.gateway.access.private_connections import connection_of

Refresh = Callable[[], Awaitable[None]]

SECTIONS = (
    ("Flow", "/", "account_tree"),
    ("Topics", "/console/topics", "view_stream"),
    ("Pipelines", "/console/pipelines", "bolt"),
    ("Views", "/console/views", "visibility"),
    ("SQL", "/console/sql", "terminal"),
    ("Schemas", "/console/schemas", "schema"),
    ("Groups", "/console/groups", "groups"),
    ("Access", "/console/access", "key"),
    ("History", "/console/history", "show_chart"),
    ("Config", "/console/config", "tune"),
)
_REFRESH_S = 2.0
_FIRST_S = 2.0
_REST = 3
_REQUESTS_MAX = 12
_FORMS = ("curl", "Python", "JavaScript", "Command")


class Page:
    """One browser's view of one page: its requests, refreshes and banner."""

    def __init__(self, client: GatewayClient, banner: Element, requests: Element) -> None:
        self._client = client
        self._banner = banner
        self._requests = requests
        self._asked: list[ConsoleRequest] = []
        self._cookies = dict(context.client.request.cookies)
        asked_by = context.client.request
        self._base_url = str(asked_by.base_url)
        peer = None if asked_by.client is None else tuple(asked_by.client)
        self._connection = connection_of({"scheme": asked_by.url.scheme, "client": peer})
        self.token_name = client.token_name(self._cookies)
        self._complaint = ""
        self._is_built_now = False
        self._filled: tuple[Refresh | None, float] = (None, 0.0)
        self._begun: dict[str, asyncio.Task[Any]] = {}
        self._answered_s: dict[str, float] = {}

    async def ask(self, asked: ConsoleRequest, timeout_s: float = POLL_S, *, is_listed: bool = True) -> Any:
        """The gateway's answer. Raises GatewayError. ``is_listed``: it is among the page's requests."""
        if asked.method == "GET" and (begun := self._begun.pop(asked.target, None)) is not None:
            return await begun
        if is_listed:
            self._remember(asked)
        return await self._send(asked, timeout_s)

    async def _send(self, asked: ConsoleRequest, timeout_s: float = POLL_S) -> Any:
        return await self._client.ask(asked, token=self._token(), timeout_s=timeout_s, connection=self._connection)

    @property
    def is_private(self) -> bool:
        """Whether others cannot listen in on the browser's connection."""
        return self._connection.is_private

    async def ask_quietly(self, asked: ConsoleRequest) -> Any:
        """The gateway's answer; the request is not among those of the page. Raises GatewayError."""
        return await self.ask(asked, is_listed=False)

    def address(self) -> dict[str, str]:
        """The parameters in the page's address."""
        return dict(context.client.request.query_params)

    def show_request(self, asked: ConsoleRequest) -> None:
        """Show a request as code that repeats it, with the choice of its form."""
        with ui.element("div").classes("curl"):
            _form_buttons()
            self._code(asked)

    def _code(self, asked: ConsoleRequest) -> None:
        """The code in each form; the browser shows the form that was chosen last, else curl."""
        written = forms(asked, self._base_url, with_token=self._token() is not None)
        with ui.element("div").classes("forms" if "Command" in written else "forms no-command"):
            for name, code in written.items():
                shown = text(code, "", "code")
                shown.props["data-form"] = name
            copy = ui.button(icon="content_copy").props("flat round dense size=sm").classes("copy")
            copy.props('aria-label="Copy the code" title="Copy the code"')
            copy.on("click", js_handler="(event) => mainstem.copyForm(event)")

    def list_request(self, asked: ConsoleRequest) -> None:
        """Show a request among those of the page, for one that was asked in another form."""
        self._remember(asked)

    def on_leave(self, leave: Callable[[], None]) -> None:
        """Call ``leave`` when the browser leaves the page, or its connection breaks."""
        context.client.on_disconnect(leave)

    def begin(self, *asked: ConsoleRequest) -> None:
        """Send GET requests while the browser still loads the page; the first refresh takes their answers."""
        for each in asked:
            self._remember(each)
            task = background_tasks.create(self._send(each), name=f"begin {each.path}", handle_exceptions=False)
            task.add_done_callback(partial(self._end, each.target))
            self._begun[each.target] = task

    def _end(self, target: str, task: asyncio.Task[Any]) -> None:
        """Note the time of an answer. A page that never connects takes neither answer nor error: nothing is logged."""
        if not task.cancelled() and task.exception() is None:
            self._answered_s[target] = time.monotonic()

    def answered_s(self, asked: ConsoleRequest) -> float:
        """When the answer came that ``ask`` has just returned, by the monotonic clock.

        It is now, except for a request that ``begin`` sent: rates are wrong if they count from when the answer was
        taken.
        """
        return self._answered_s.pop(asked.target, time.monotonic())

    def every(self, refresh: Refresh, seconds: float = _REFRESH_S) -> None:
        """Refresh as soon as the browser is connected and every ``seconds``, for as long as it is.

        A refresh that takes long, on a log of many partitions, is followed by a rest of three times as long. What
        ``fill`` has just shown is not asked for again at once.
        """
        filled, filled_s = self._filled
        next_s = filled_s + seconds if refresh == filled else 0.0

        async def tick() -> None:
            nonlocal next_s
            started_s = time.monotonic()
            if started_s >= next_s:
                await self.guarded(refresh)
                ended_s = time.monotonic()
                next_s = ended_s + _REST * (ended_s - started_s)

        ui.timer(seconds, tick, immediate=True)

    async def fill(self, refresh: Refresh) -> None:
        """Refresh while the page is built, for a page whose buttons the first refresh would move.

        A button that moves between the press and the release of the mouse gets no click. A gateway that does not answer
        within two seconds leaves it to the refreshes that follow. A page about nothing has status 404.
        """
        self._is_built_now = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_S):
                await self.guarded(refresh)
                self._filled = (refresh, time.monotonic())
        self._is_built_now = False

    async def guarded(self, refresh: Refresh) -> None:
        """Refresh; an error of the gateway goes to the banner."""
        try:
            await refresh()
        except GatewayError as error:
            if error.status == 404 and self._is_built_now:
                context.client.status_code = 404
            self.complain(error)
        else:
            self.calm()

    def complain(self, error: GatewayError) -> None:
        """Show what the gateway said, until a refresh succeeds."""
        if error.status == 401:
            self._ask_for_token(error)
            return
        complaint = f"{error.title}: {error.detail}"
        if complaint != self._complaint:
            self._complaint = complaint
            self._banner.clear()
            with self._banner:
                ui.icon("sync_problem").props("aria-hidden=true")
                text(complaint)
                text("Trying again by itself.", "quiet")
        self._banner.set_visibility(True)

    def calm(self) -> None:
        """Take the banner away."""
        if self._complaint:
            self._complaint = ""
            self._banner.set_visibility(False)

    def _token(self) -> str | None:
        return self._client.token_of(self._cookies)

    def _ask_for_token(self, error: GatewayError) -> None:
        if self._complaint == "401":
            return
        self._complaint = "401"
        self._banner.clear()
        with self._banner:
            ui.icon("key").props("aria-hidden=true")
            text(error.detail)
            ui.button("Sign in", on_click=ui.navigate.reload).props("dense unelevated no-caps")
        self._banner.set_visibility(True)

    def _remember(self, asked: ConsoleRequest) -> None:
        if asked in self._asked:
            return
        self._asked.append(asked)
        if len(self._asked) > _REQUESTS_MAX:
            del self._asked[0]
        self._requests.clear()
        with self._requests:
            _form_buttons()
            for each in reversed(self._asked):
                with ui.element("div").classes("curl"):
                    self._code(each)


def _form_buttons() -> None:
    """The choice between the forms of a request, kept by the browser for all pages."""
    with ui.element("div").classes("as").props('role="group" aria-label="Copy as"'):
        for name in _FORMS:
            button = text(name, "", "button")
            button.props(f'type=button data-form="{name}"')
            button.on("click", js_handler=f"() => mainstem.chooseForm('{name}')")


@contextmanager
def page(
    client: GatewayClient, title: str, section: str, parents: tuple[tuple[str, str], ...] = (), kind: str = ""
) -> Iterator[Page]:
    """The frame around a page's content. ``parents`` are the names and addresses of the pages above it.

    ``kind``: what ``title`` names, so that the tabs of a topic and of its view differ.
    """
    ui.page_title(f"{kind} {title} · Mainstem".lstrip())
    with ui.element("header").classes("top"):
        with ui.element("a").props('href="/" aria-label="Mainstem, the flow"').classes("brand"):
            ui.html(_BRAND, sanitize=False)
            text("Mainstem", "brand-name")
        _navigation(section)
        _identity(client)
        find = ui.button(icon="search").props('flat round dense aria-label="Go to …" title="Go to … (Ctrl+K)"')
        find.classes("find").on("click", js_handler="() => mainstemPalette.open()")
        sign = chip()
        theme = ui.button(icon="brightness_auto").props('flat round dense id="theme" aria-label="Light or dark"')
        theme.on("click", js_handler="() => mainstem.nextTheme()")
    banner = ui.element("div").classes("banner").props('role="alert"')
    banner.set_visibility(False)
    with ui.element("div").classes("content read-only" if client.is_read_only else "content") as main:
        with ui.element("div").classes("heading"):
            for name, address in parents:
                link(name, address, "crumb")
                text("/", "quiet")
            text(title, "", "h1")
    ui.skip_link("Skip to the content", target=main)
    with ui.element("details").classes("requests"):
        with ui.element("summary"):
            text("The requests of this page, as code")
        requests = ui.element("div")
    this = Page(client, banner, requests)
    palette.add(this)
    with main:
        yield this
    keep_fresh(sign, this.ask_quietly)


def _identity(client: GatewayClient) -> None:
    """Show the token that the browser signed in with, if one is asked for, and whether this console changes things."""
    name = client.token_name(context.client.request.cookies)
    with _link("/console/access?tab=tokens", "identity") as made:
        made.props["title"] = "No sign-in: this gateway asks for no tokens" if name is None else f"Token {name}"
        ui.icon("person" if name else "no_accounts").props("aria-hidden=true")
        text(name or "no sign-in", "identity-name" if name else "said")
        if client.is_read_only:
            text("read-only", "read-only-mark")


def _link(address: str, classes: str = "") -> Element:
    made = ui.element("a").classes(classes)
    made.props["href"] = address
    return made


def _navigation(section: str) -> None:
    with ui.element("nav").props('aria-label="Parts of the console"').classes("sections"):
        for name, address, icon in SECTIONS:
            with _link(address, "section" + (" here" if name == section else "")) as made:
                if name == section:
                    made.props["aria-current"] = "page"
                ui.icon(icon).props("aria-hidden=true")
                text(name)


def show_nowhere(client: GatewayClient, rest: str) -> None:
    """Show the page for an unknown path."""
    context.client.status_code = 404
    with page(client, "No such page", ""):
        text(f"There is nothing at /console/{rest[:100]}.")


_BRAND = (
    '<svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><rect width="32" height="32" rx="7" '
    'fill="#0b5cad"/><path d="M6 9c6 0 6 7 10 7s4-7 10-7M6 23c6 0 6-7 10-7s4 7 10 7" fill="none" stroke="#fff" '
    'stroke-width="3" stroke-linecap="round"/></svg>'
)
