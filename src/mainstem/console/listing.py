"""Requests that several pages share: the topics with their ends, the pipelines, the views. Stateless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstem.client.dead_letter_headers import pipeline_topic
from mainstem.console.requests import ConsoleRequest

if TYPE_CHECKING:
    from mainstem.console.frame import Page

Document = dict[str, Any]

TOPICS = ConsoleRequest("/topics", {"offsets": "true"})
TOPIC_NAMES = ConsoleRequest("/topics")
PIPELINES = ConsoleRequest("/pipelines")
VIEWS = ConsoleRequest("/views")


async def topics(page: Page) -> list[Document]:
    """Every topic, with its offsets and ends. Raises GatewayError."""
    found: list[Document] = (await page.ask(TOPICS))["topics"]
    return found


async def pipelines(page: Page) -> list[Document]:
    """Every pipeline. Raises GatewayError."""
    found: list[Document] = (await page.ask(PIPELINES))["pipelines"]
    return found


async def views(page: Page) -> list[Document]:
    """Every view. Raises GatewayError."""
    found: list[Document] = (await page.ask(VIEWS))["views"]
    return found


def dead_letter_topic(pipeline: Document) -> str:
    """The name of the topic with the records that a pipeline could not use."""
    return pipeline_topic(str(pipeline.get("app")), str(pipeline["name"]))


def is_own_topic(topic: Document) -> bool:
    """Whether a topic is Kafka's or Mainstem's own."""
    return bool(topic["internal"]) or str(topic["name"]).startswith("__")


def total(position: str, *topics: str) -> int:
    """The sum of a position's offsets, or of those of some topics. The position is one that the gateway wrote."""
    parts = (part.rpartition(":") for part in position.split(",") if part)
    return sum(int(offset) for tp, _, offset in parts if not topics or tp.rpartition("/")[0] in topics)
