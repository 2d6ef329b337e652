"""``NodePanel``: the numbers and links of the node that is chosen in the flow. Used by one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from mainstem.console.flow.flow_graph import FlowNode
from mainstem.console.formats import count, rate
from mainstem.console.parts import link, position, state, text

_LINKS_MAX = 20


class NodePanel:
    """The panel; hidden while no node is chosen."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._shown: object = None
        self.element = ui.element("aside").classes("node-panel").props('aria-live="polite" aria-label="Chosen node"')
        self.element.set_visibility(False)

    def hide(self) -> None:
        """No node is chosen."""
        self._shown = None
        self.element.set_visibility(False)

    def show(
        self,
        node: FlowNode,
        document: Mapping[str, Any],
        rates: Mapping[str, float | None],
        before: Sequence[FlowNode],
        after: Sequence[FlowNode],
    ) -> None:
        """Show a node with its document of the gateway, and what is next to it."""
        facts = _facts(node, document, rates)
        shown = (node, tuple(facts.items()), tuple(before), tuple(after))
        if shown == self._shown:
            return
        self._shown = shown
        self.element.clear()
        self.element.set_visibility(True)
        with self.element:
            with ui.element("div").classes("bar"):
                text(node.label, f"node-kind {node.kind}")
                text(node.name, "card-title", "h2")
                close = ui.button(icon="close", on_click=self._close).props("flat round dense size=sm")
                close.props('aria-label="Close" title="Close"')
            with ui.element("dl").classes("facts"):
                for name, value in facts.items():
                    text(name, "", "dt")
                    with ui.element("dd"):
                        _value(name, value)
            link(f"Open the {node.kind}", node.address)
            for title, nodes in (("From", before), ("To", after)):
                if nodes:
                    text(title, "figure-label", "p")
                for each in nodes[:_LINKS_MAX]:
                    with ui.element("p").classes("node-next"):
                        text(each.label, "quiet")
                        link(each.name, each.address)


def _value(name: str, value: str) -> None:
    if name == "State":
        state(value)
    elif "/" in value and ":" in value:
        position(value)
    else:
        text(value)


def _facts(node: FlowNode, document: Mapping[str, Any], rates: Mapping[str, float | None]) -> dict[str, str]:
    if not document:
        return {}
    if node.kind == "topic":
        return {
            "Offsets": count(document["offsets"]),
            "Appended": rate(rates.get(node.id)),
            "End": document["end"] or "nothing yet",
        }
    if node.kind == "view":
        return {
            "State": document["state"],
            "Lag": count(document["lag"]),
            "Applied": rate(rates.get(node.id)),
            "Dead letters": count(document["dead_letters"]),
            "Position": document["position"] or "nothing yet",
        }
    return {
        "State": document["status"],
        "Lag": count(document["lag"]),
        "Read": rate(_read_rate(document, rates)),
        "Position": document["source"] or "nothing yet",
    }


def _read_rate(pipeline: Mapping[str, Any], rates: Mapping[str, float | None]) -> float | None:
    known = [rates.get(f"read:{pipeline['name']}:{topic}") for topic in pipeline["inputs"]]
    return sum(each for each in known if each is not None) if any(each is not None for each in known) else None
