"""``/console/groups/{group}``: a group's members, how far it is in each partition, its reset and its deletion."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console import listing
from mainstem.console.confirmation import confirm_by_name
from mainstem.console.formats import NOTHING, count
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient, GatewayError
from mainstem.console.groups.group_owner import GroupOwner, owner_of
from mainstem.console.groups.reset_wizard import ResetWizard
from mainstem.console.parts import (
    card,
    column,
    empty,
    figure,
    link,
    problem,
    search_field,
    set_rows,
    set_state,
    state,
    table,
    text,
)
from mainstem.console.requests import ConsoleRequest, path

_PARTITIONS = (
    column("place", "Partition", href="address", classes="breaks"),
    column("committed", "Committed", format="count"),
    column("end", "End", format="count"),
    column("lag", "Lag", format="count", bar="share"),
    column("client", "Read by", classes="breaks"),
)
_MEMBERS = (
    column("client", "Client id", classes="breaks"),
    column("host", "Host"),
    column("assigned", "Partitions", classes="breaks"),
    column("instance", "Instance", classes="wide"),
    column("member", "Member id", classes="wide mono breaks"),
)
_ASSIGNED_MAX = 20

Document = dict[str, Any]


async def show(client: GatewayClient, group: str) -> None:
    """Build the page."""
    with page(client, group, "Groups", (("Groups", "/console/groups"),), "Group") as this:
        shown = _Group(this, group)
        await this.fill(shown.refresh)
        this.every(shown.refresh)


class _Group:
    """One group, kept fresh."""

    def __init__(self, this: Page, group: str) -> None:
        self._page = this
        self._group = group
        self._about = ConsoleRequest(path("groups", group))
        self._found: Document | None = None
        self._owner: GroupOwner | None = None
        with card():
            with ui.element("div").classes("bar"):
                self._state = state("starting")
            with ui.element("div").classes("figures"):
                self._figures = [figure(label) for label in ("Protocol", "Members", "Partitions", "Lag")]
            self._belongs = ui.element("p").classes("spaced")
        with card("Partitions"):
            with ui.element("div").classes("bar"):
                place = ui.element("div")
            self._partitions = table(_PARTITIONS, "place", "Partitions").classes("cards")
            with place:
                search_field("Find a partition", self._partitions)
            self._nothing = empty("No partitions", "The group has committed nothing, and no partition is assigned.")
        with card("Members"):
            self._members = table(_MEMBERS, "member", "Members").classes("cards")
            self._no_members = text("No members: no client of this group is connected.", "quiet", "p")
        with card("Change") as changes:
            changes.classes("changes")
            self._build_changes()

    def _build_changes(self) -> None:
        self._wizard = ResetWizard(self._page, self._group, self.refresh)
        with ui.element("div").classes("bar"):
            self._reset = ui.button("Reset …", on_click=self._open_wizard).props("outline no-caps")
            self._delete = ui.button("Delete …", on_click=self._run_delete).props("outline no-caps color=negative")
        self._result = ui.element("div").props('aria-live="polite"')

    async def refresh(self) -> None:
        """Show how the group is now."""
        try:
            found = await self._page.ask(self._about)
        except GatewayError as error:
            if error.status == 404:
                set_state(self._state, "no group of this name")
                self._found = None
                self._enable()
            raise
        self._found = found
        owner = owner_of(found, await listing.pipelines(self._page) if found["group"].startswith("mainstem-") else ())
        self._show_owner(owner)
        self._show(found)
        self._enable()

    def _enable(self) -> None:
        is_reader = self._owner is None or self._owner.is_reader
        self._reset.set_enabled(self._found is not None and self._found["type"] != "share" and is_reader)
        self._delete.set_enabled(self._found is not None)

    def _show_owner(self, owner: GroupOwner | None) -> None:
        self._belongs.set_visibility(owner is not None)
        if owner is None or owner == self._owner:
            return
        self._owner = owner
        self._belongs.clear()
        with self._belongs:
            text(owner.sentence if owner.links else owner.sentence.removesuffix("."))
            for number, (name, address) in enumerate(owner.links):
                text(" " if number == 0 else ", ")
                link(name, address)
            text("." if owner.is_reader else ". These offsets are not read positions, so a reset is not offered.")

    def _show(self, group: Document) -> None:
        members, partitions = group["members"], group["partitions"]
        set_state(self._state, group["state"])
        words = (group["type"], count(len(members)), count(len(partitions)), count(group["lag"]))
        for shown, word in zip(self._figures, words, strict=True):
            shown.text = word
        clients = {member["member"]: member["client"] for member in members}
        most = max((each["lag"] or 0 for each in partitions), default=0)
        set_rows(self._partitions, [_partition_row(each, clients, most) for each in partitions])
        self._partitions.set_visibility(bool(partitions))
        self._nothing.set_visibility(not partitions)
        set_rows(self._members, [_member_row(member) for member in members])
        self._members.set_visibility(bool(members))
        self._no_members.set_visibility(not members)

    def _open_wizard(self) -> None:
        if self._found is not None:
            self._wizard.open(self._found)

    async def _run_delete(self) -> None:
        consequences = "Its committed offsets are gone for good. A client that comes back under this name starts over."
        if self._owner is not None and not self._owner.is_reader:
            consequences += " This group is Mainstem's own: what it belongs to may then write records twice, or fail."
        typed = await confirm_by_name(f"Delete group {self._group}?", consequences, self._group, "Delete the group")
        if typed is None:
            return
        self._result.clear()
        try:
            await self._page.ask(ConsoleRequest(path("groups", self._group), {"confirm": typed}, "DELETE"))
        except GatewayError as error:
            with self._result:
                problem(error.title, error.detail)
                if error.status == 409:
                    text("Nothing was deleted. Stop the group's members, wait until it is empty, and try again.")
            return
        ui.navigate.to("/console/groups")


def _partition_row(partition: Document, clients: dict[str, str], most: int) -> Document:
    topic, number, lag = partition["topic"], partition["partition"], partition["lag"]
    return {
        **partition,
        "place": f"{topic}/{number}",
        "address": path("console", "topics", topic) + f"?partition={number}",
        "share": 0 if not lag else max(2, round(100 * lag / most)),
        "client": clients.get(partition["member"] or "", NOTHING),
    }


def _member_row(member: Document) -> Document:
    assigned = member["partitions"]
    shown = ", ".join(assigned[:_ASSIGNED_MAX])
    more = f" and {count(len(assigned) - _ASSIGNED_MAX)} more" if len(assigned) > _ASSIGNED_MAX else ""
    return {**member, "assigned": (shown + more) or NOTHING, "instance": member["instance"] or NOTHING}
