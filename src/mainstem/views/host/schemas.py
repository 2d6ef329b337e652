"""The schema that a SQL view's table, or a lake's, is made from, and that says which values of metrics are decimals.

In this order: what the App declares, what is registered for the topic, nothing. A derived topic's schema is registered
when Spark first starts its pipeline; until then there is nothing to make a table from, and the view waits. Other views
need no schema.
"""

from __future__ import annotations

from mainstem.client.log import Log
from mainstem.pipelines.definitions import View
from mainstem.schema.infer import schema_of
from mainstem.schema.registry import lookup
from mainstem.schema.types import TopicSchema
from mainstem.views.host.runner import NotYetError


def schema_of_view(view: View, log: Log, *, is_derived: bool) -> TopicSchema | None:
    """The schema for ``view``; None where the topic has none. Raises NotYetError, DefinitionError, SchemaError."""
    if not view.kind.needs_schema:
        return None
    if view.topic.schema is not None:
        return schema_of(view.topic.schema)
    registered = lookup(log, view.topic.name)
    if registered is not None:
        return registered.schema
    if is_derived:
        raise NotYetError(
            f"for the schema of topic {view.topic.name}, which its pipeline or capture registers when it starts"
        )
    return None


def key_of_view(view: View, log: Log) -> tuple[str, ...]:
    """The key columns of the view's topic, where its store is laid out by a schema. Raises SchemaError."""
    if not view.kind.needs_schema or view.topic.key or view.topic.schema is not None:
        return view.topic.key
    registered = lookup(log, view.topic.name)
    return () if registered is None else registered.key
