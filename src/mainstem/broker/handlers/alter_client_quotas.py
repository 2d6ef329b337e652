"""AlterClientQuotas (49), versions 0–1: sets and removes quotas; durable when answered, each entity by itself.

``validate_only`` changes nothing. Deliberate: there are no quotas for addresses (type ``ip``): UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import refusal, reported_in
from mainstem.broker.node import Node
from mainstem.broker.quotas.entities import Entity, check_limit
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import alter_client_quotas as messages


def handle(node: Node, call: Call) -> messages.AlterClientQuotasResponse:
    body: messages.AlterClientQuotasRequest = call.body
    entries = []
    for asked in body.entries:
        answer = messages.ResponseEntryData(
            error_code=ErrorCode.NONE,
            error_message=None,
            entity=[
                messages.ResponseEntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in asked.entity
            ],
        )
        with reported_in(answer):
            _alter(node, asked, validate_only=body.validate_only)
        entries.append(answer)
    return messages.AlterClientQuotasResponse(entries=entries)


def _alter(node: Node, asked: messages.RequestEntryData, *, validate_only: bool) -> None:
    parts = {part.entity_type: part.entity_name for part in asked.entity}
    if len(parts) < len(asked.entity):
        raise refusal(ErrorCode.INVALID_REQUEST, "an entity names a type twice")
    entity = Entity.of(parts)
    limits = dict(node.quotas.limits.get(entity, {}))
    for op in asked.ops:
        if op.remove:
            limits.pop(op.key, None)
            continue
        check_limit(op.key, op.value)
        limits[op.key] = op.value
    if not validate_only:
        node.quotas.change(entity, limits)


API = Api(messages.AlterClientQuotasRequest, handle, admin_guards.alter_client_quotas, changes_state=True)
