"""``AclsTab``: the log's ACLs: list, add, remove, and what a user may do by them."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from mainstem.console.access.access_tab import AccessTab, change_form
from mainstem.console.access.acl_explainer import (
    explained,
    is_super_user,
    principal_of,
    resource_option,
    resource_words,
)
from mainstem.console.confirmation import confirm_by_name
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import card, column, problem, set_rows, table, text
from mainstem.console.requests import ConsoleRequest

_COLUMNS = (
    column("principal", "Principal", classes="breaks"),
    column("permission", "Effect"),
    column("operation", "Operation"),
    column("words", "On", classes="breaks"),
    column("host", "From"),
    column("act", "Action", action="Remove …", of="id", sortable=False),
)
_EXPLAINED = (
    column("resource", "On", classes="breaks"),
    column("allowed", "May", classes="breaks"),
    column("denied", "Denied", classes="breaks"),
    column("host", "From"),
    column("source", "By which ACLs", classes="wide"),
)
_OPERATIONS: Final = (
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
    "ClusterAction",
    "All",
)
_RESOURCES: Final = {"topic": "Topic", "group": "Group", "transactional-id": "Transactional id", "cluster": "Cluster"}
_CONFIG: Final = ConsoleRequest("/config")
_ACLS: Final = ConsoleRequest("/acls")

Document = dict[str, Any]


class AclsTab:
    """The tab. ``who``: the user to explain at first."""

    def __init__(self, page: Page, who: str) -> None:
        self._page = page
        self._acls: list[Document] = []
        with card("What may a user do?"):
            with ui.element("form").classes("bar") as form:
                form.on("submit.prevent", self._explain)
                self._who = ui.input("User, such as alice", value=who[:1_000]).props("dense outlined").classes("grow")
                ui.button("Explain").props("unelevated no-caps type=submit")
            self._explained = ui.element("div").props('aria-live="polite"')
        self._is_asked = bool(who)
        self._tab = AccessTab(page, "ACLs", _COLUMNS, self._load, self._remove)
        with change_form("Add ACLs", self._add, "Add"):
            self._build_form()

    def _build_form(self) -> None:
        self._principal = ui.input("User (* is everyone)").props("dense outlined autocomplete=off").classes("field")
        self._permission = ui.toggle(["Allow", "Deny"], value="Allow").props("dense no-caps unelevated")
        self._permission.classes("choice")
        self._operations = ui.select(list(_OPERATIONS), multiple=True, label="Operations")
        self._operations.props("dense outlined use-chips").classes("field")
        self._resource = ui.select(_RESOURCES, value="topic", label="On").props("dense outlined").classes("field")
        self._name = ui.input("Name (* is every one)").props("dense outlined").classes("field")
        self._name.bind_visibility_from(self._resource, "value", backward=lambda value: value != "cluster")
        self._prefix = ui.checkbox("All names that begin so").props("dense")
        self._prefix.bind_visibility_from(self._resource, "value", backward=lambda value: value != "cluster")
        self._host = ui.input("From this address (* is every one)", value="*").props("dense outlined").classes("field")

    async def refresh(self) -> None:
        """Show the ACLs as they are now; the first time, explain the user of the address."""
        await self._tab.refresh()
        if self._is_asked:
            self._is_asked = False
            await self._explain()

    async def _load(self) -> list[Document]:
        self._acls = (await self._page.ask(_ACLS))["acls"]
        fields = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
        return [
            {**acl, "id": " ".join(str(acl[field]) for field in fields), "words": resource_words(acl)}
            for acl in self._acls
        ]

    async def _explain(self) -> None:
        principal = principal_of((self._who.value or "").strip() or "*")
        self._explained.clear()
        try:
            await self._tab.refresh()
            brokers = (await self._page.ask(_CONFIG))["brokers"]
        except GatewayError as error:
            with self._explained:
                problem(error.title, error.detail)
            return
        settings = {each["name"]: each["value"] or "" for broker in brokers for each in broker["configs"]}
        with self._explained:
            if is_super_user(principal, settings.get("super.users", "")):
                text(f"{principal} is a super user: it may do everything, whatever the ACLs say.", "note", "p")
                return
            rows = explained(self._acls, principal)
            if not rows:
                text(f"No ACL names {principal} or everyone. It may do nothing.", "note", "p")
            else:
                text("A denial wins over what another row allows.", "quiet", "p")
                set_rows(table(_EXPLAINED, "id", f"What {principal} may do").classes("cards"), rows)
            if settings.get("allow.everyone.if.no.acl.found") == "true":
                text("Resources without any ACL are open to everyone (allow.everyone.if.no.acl.found).", "note", "p")

    async def _add(self) -> None:
        kind = str(self._resource.value)
        body: Document = {
            "principal": principal_of((self._principal.value or "").strip()),
            "operations": list(self._operations.value or ()),
            "on": ["cluster" if kind == "cluster" else f"{kind}:{(self._name.value or '').strip()}"],
        }
        if self._prefix.value and kind != "cluster":
            body["prefix"] = True
        if self._permission.value == "Deny":
            body["deny"] = True
        host = (self._host.value or "").strip()
        if host not in ("", "*"):
            body["host"] = host
        await self._tab.change(ConsoleRequest("/acls", {}, "POST", body))

    async def _remove(self, acl: Document) -> None:
        effect = "may then do less" if acl["permission"] == "Allow" else "may then do more"
        rule = f"{acl['permission']} {acl['operation']} on {acl['words']}, from {acl['host']}"
        typed = await confirm_by_name(
            "Remove this ACL?",
            f"{rule}. {acl['principal']} {effect}.",
            acl["principal"],
            "Remove the ACL",
        )
        if typed is None:
            return
        query = {
            "principal": acl["principal"],
            "on": resource_option(acl),
            "operation": acl["operation"],
            "prefix": "true" if acl["pattern"] == "Prefixed" else None,
            "deny": "true" if acl["permission"] == "Deny" else None,
            "host": acl["host"],
            "confirm": typed,
        }
        await self._tab.change(ConsoleRequest("/acls", query, "DELETE"))
