"""IncrementalAlterConfigs (44), versions 0–1: sets, deletes, appends to and subtracts from configs of a topic, a group,
client metrics or the node.

Durable when answered; ``validate_only`` changes nothing. Of the node's settings only those can be given that may change
while it runs (INVALID_REQUEST). Deliberate: configs of loggers are not kept: INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mainstem.broker.access import admin_guards
from mainstem.broker.access.acls import Operation
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.configs.config_changes import change_configs, value_of
from mainstem.broker.configs.config_entries import ChangeableConfigs
from mainstem.broker.error_codes import refusal
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import incremental_alter_configs as messages

_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3
_OPERATIONS: Final = frozenset({_SET, _DELETE, _APPEND, _SUBTRACT})


async def handle(node: Node, call: Call) -> messages.IncrementalAlterConfigsResponse:
    body: messages.IncrementalAlterConfigsRequest = call.body
    results = await change_configs(node.changeable_configs, body.resources, _changed, validate_only=body.validate_only)
    responses = [messages.AlterConfigsResourceResponse(**result._asdict()) for result in results]
    return messages.IncrementalAlterConfigsResponse(responses=responses)


def _changed(configs: ChangeableConfigs, asked: Iterable[messages.AlterableConfig]) -> dict[str, str]:
    overrides = dict(configs.overrides)
    for config in asked:
        if config.config_operation not in _OPERATIONS:
            raise refusal(
                ErrorCode.INVALID_REQUEST,
                f"config {config.name}: unknown operation {config.config_operation}: use 0 (set), "
                "1 (delete), 2 (append) or 3 (subtract)",
            )
    for config in asked:
        _change(configs, overrides, config)
    return overrides


def _change(configs: ChangeableConfigs, overrides: dict[str, str], config: messages.AlterableConfig) -> None:
    if config.config_operation == _DELETE:
        overrides.pop(config.name, None)
        return
    value = value_of(config)
    if config.config_operation == _SET:
        overrides[config.name] = value
        return
    definition = configs.definitions.get(config.name)
    if definition is None or definition.type != "list":
        raise refusal(
            ErrorCode.INVALID_CONFIG, f"config {config.name}: operation {config.config_operation} works on lists only"
        )
    words = [word for word in overrides.get(config.name, definition.default).split(",") if word]
    changed = value.split(",")
    if config.config_operation == _APPEND:
        words += [word for word in changed if word not in words]
    else:
        words = [word for word in words if word not in changed]
    overrides[config.name] = ",".join(words)


API = Api(
    messages.IncrementalAlterConfigsRequest,
    handle,
    admin_guards.on_configs(Operation.ALTER_CONFIGS, "responses"),
    changes_state=True,
)
