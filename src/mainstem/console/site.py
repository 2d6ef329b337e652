"""The console's app: NiceGUI set up for one gateway, and the table of pages. Loaded once in a process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import core, ui

from mainstem.console import frame
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.groups import clients_page
from mainstem.console.pages import (
    access_page,
    config_page,
    dead_letters_page,
    flow_page,
    group_page,
    groups_page,
    history_page,
    journey_page,
    pipelines_page,
    problems_page,
    sql_page,
    topic_page,
    topics_page,
    view_page,
    views_page,
)
from mainstem.console.schemas import subject_page, subjects_page
from mainstem.console.sign_in import Sessions
from mainstem.gateway.access.request_limits import AsgiApp

_FILES = Path(__file__).parent / "static"
_RECONNECT_S = 5.0
_TAB_S = 60.0  # the console keeps nothing for a tab
_BUILD_S = 15.0  # how long a page may take to build, also on a busy machine
_page = partial(ui.page, response_timeout=_BUILD_S)


def build(gateway: AsgiApp, sessions: Sessions, *, is_read_only: bool = False) -> FastAPI:
    """The console of ``gateway``; its lifespan starts and stops NiceGUI. ``sessions``: whose tokens pages use.

    ``is_read_only``: the pages hide what would change something; that ``gateway`` refuses it is the caller's work.
    """
    client = GatewayClient(gateway, sessions, is_read_only=is_read_only)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    style = (_FILES / "console.css").read_text()
    script = "".join((_FILES / name).read_text() for name in ("console.js", "palette.js"))
    ui.add_head_html(f"<style>{style}</style><script>{script}</script>", shared=True)
    _add_pages(client)
    _add_operation_pages(client)
    ui.run_with(
        app,
        title="Mainstem",
        favicon=(_FILES / "icon.svg").read_text(),
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT_S,
        tailwind=False,
        show_welcome_message=False,
    )
    nicegui_app.config.socket_io_js_transports = ["websocket"]
    # Quasar's bar at the top has no name for a screen reader; pages wait for nothing but their websocket.
    nicegui_app.config.quasar_config["loadingBar"]["skipHijack"] = True
    nicegui_app.storage.max_tab_storage_age = _TAB_S
    core.sio.eio.cors_allowed_origins = None  # our own origin alone, as the guard has it
    return app


def _add_pages(client: GatewayClient) -> None:
    @_page("/")
    async def flow(search: str = "") -> None:
        await flow_page.show(client, search)

    @_page("/console/topics")
    async def topics(search: str = "") -> None:
        await topics_page.show(client, search)

    @_page("/console/topics/{topic}")
    async def topic(topic: str) -> None:
        await topic_page.show(client, topic)

    @_page("/console/topics/{topic}/records/{partition}/{offset}")
    async def record(topic: str, partition: str, offset: str) -> None:
        await journey_page.show(client, topic, partition, offset)

    @_page("/console/pipelines")
    async def pipelines() -> None:
        await pipelines_page.show_all(client)

    @_page("/console/pipelines/{pipeline}")
    async def pipeline(pipeline: str) -> None:
        await pipelines_page.show_one(client, pipeline)

    @_page("/console/views")
    async def views() -> None:
        await views_page.show(client)

    @_page("/console/views/{view}")
    async def view(view: str) -> None:
        await view_page.show(client, view)

    @_page("/console/sql")
    async def sql() -> None:
        await sql_page.show(client)

    @_page("/console/schemas")
    async def schemas(search: str = "") -> None:
        await subjects_page.show(client, search)

    @_page("/console/schemas/{subject:path}")
    async def subject(subject: str) -> None:
        await subject_page.show(client, subject)


def _add_operation_pages(client: GatewayClient) -> None:
    @_page("/console/groups")
    async def groups() -> None:
        await groups_page.show(client)

    @_page("/console/clients")
    async def clients(instance: str = "") -> None:
        await clients_page.show(client, instance)

    @_page("/console/groups/{group:path}")
    async def group(group: str) -> None:
        await group_page.show(client, group)

    @_page("/console/access")
    async def access(tab: str = "", who: str = "") -> None:
        await access_page.show(client, tab, who)

    @_page("/console/dead-letters")
    async def dead_letters(topic: str = "") -> None:
        await dead_letters_page.show(client, topic)

    @_page("/console/history")
    async def history() -> None:
        await history_page.show(client)

    @_page("/console/problems")
    async def problems() -> None:
        await problems_page.show(client)

    @_page("/console/config")
    async def config() -> None:
        await config_page.show(client)

    @_page("/console")
    @_page("/console/{rest:path}")
    async def nowhere(rest: str = "") -> None:
        frame.show_nowhere(client, rest)
