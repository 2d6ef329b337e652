"""DescribeClientQuotas (48), versions 0–1: the quotas of the entities that a filter means.

``strict``: of entities that have no other parts than those that the filter names. Deliberate: there are no quotas for
addresses (type ``ip``): UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.quotas.entities import TYPES, Entity
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_client_quotas as messages

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def handle(node: Node, call: Call) -> messages.DescribeClientQuotasResponse:
    body: messages.DescribeClientQuotasRequest = call.body
    try:
        _check(body)
    except MainstemError as error:
        return messages.DescribeClientQuotasResponse(
            error_code=error_code(error), error_message=str(error), entries=None
        )
    entries = [
        messages.EntryData(
            entity=[messages.EntityData(entity_type=part.type, entity_name=part.name) for part in entity.parts],
            values=[messages.ValueData(key=key, value=value) for key, value in sorted(limits.items())],
        )
        for entity, limits in node.quotas.limits.items()
        if _fits(entity, body)
    ]
    return messages.DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message=None, entries=entries)


def _check(body: messages.DescribeClientQuotasRequest) -> None:
    types = [component.entity_type for component in body.components]
    unknown = [kind for kind in types if kind not in TYPES]
    if unknown:
        raise refusal(ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas for entities of type {unknown[0]!r} here")
    if len(set(types)) < len(types):
        raise refusal(ErrorCode.INVALID_REQUEST, "a filter names a type of entity twice")
    for component in body.components:
        if component.match_type not in (_EXACT, _DEFAULT, _ANY) or (component.match is None) == (
            component.match_type == _EXACT
        ):
            raise refusal(ErrorCode.INVALID_REQUEST, "a filter needs a name for an exact match, and no name otherwise")


def _fits(entity: Entity, body: messages.DescribeClientQuotasRequest) -> bool:
    names = {part.type: part.name for part in entity.parts}
    if body.strict and len(names) != len(body.components):
        return False
    return all(component.entity_type in names and _fits_name(names, component) for component in body.components)


def _fits_name(names: dict[str, str | None], component: messages.ComponentData) -> bool:
    name = names[component.entity_type]
    if component.match_type == _EXACT:
        return name == component.match
    return component.match_type == _ANY or name is None


API = Api(messages.DescribeClientQuotasRequest, handle, on_cluster(Operation.DESCRIBE_CONFIGS))
