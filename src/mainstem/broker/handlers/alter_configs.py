"""AlterConfigs (33), versions 0–2: replaces all configs of a topic, a group, client metrics or the node by those given.

Durable when answered; ``validate_only`` changes nothing. Of the node's settings only those can be given that may change
while it runs (INVALID_REQUEST). Deliberate: configs of loggers are not kept: INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.broker.access import admin_guards
from mainstem.broker.access.acls import Operation
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.configs.config_changes import change_configs, value_of
from mainstem.broker.configs.config_entries import ChangeableConfigs
from mainstem.broker.node import Node
from mainstem.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(node: Node, call: Call) -> AlterConfigsResponse:
    body: AlterConfigsRequest = call.body
    results = await change_configs(node.changeable_configs, body.resources, _replaced, validate_only=body.validate_only)
    return AlterConfigsResponse(responses=[AlterConfigsResourceResponse(**result._asdict()) for result in results])


def _replaced(_: ChangeableConfigs, asked: Iterable[AlterableConfig]) -> dict[str, str]:
    return {config.name: value_of(config) for config in asked}


API = Api(
    AlterConfigsRequest, handle, admin_guards.on_configs(Operation.ALTER_CONFIGS, "responses"), changes_state=True
)
