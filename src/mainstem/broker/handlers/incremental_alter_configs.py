"""IncrementalAlterConfigs (44), versions 0–1: sets, deletes, appends to and subtracts from configs (topics, groups).

Durable when answered; ``validate_only`` changes nothing. Deliberate: a node's settings are given when it starts:
INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from mainstem.broker.api import Api, Call
from mainstem.broker.config_entries import ChangeableConfigs, changeable_configs
from mainstem.broker.failures import error_code, refusal
from mainstem.errors import MainstemError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node

_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3


def handle(node: Node, call: Call) -> IncrementalAlterConfigsResponse:
    """Serve one request; the top of the file says how."""
    body: IncrementalAlterConfigsRequest = call.body
    responses = []
    for asked in body.resources:
        response = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        try:
            _alter(node, asked, validate_only=body.validate_only)
        except MainstemError as error:
            response.error_code, response.error_message = error_code(error), str(error)
        responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(node: Node, asked: AlterConfigsResource, *, validate_only: bool) -> None:
    configs = changeable_configs(node, asked.resource_type, asked.resource_name)
    if any(count > 1 for count in Counter(config.name for config in asked.configs).values()):
        raise refusal(ErrorCode.INVALID_REQUEST, "a config stands twice in the request")
    overrides = dict(configs.overrides)
    for config in asked.configs:
        _change(configs, overrides, config)
    configs.replace(overrides, validate_only)


def _change(configs: ChangeableConfigs, overrides: dict[str, str], config: AlterableConfig) -> None:
    if config.config_operation == _DELETE:
        overrides.pop(config.name, None)
        return
    if config.value is None:
        raise refusal(ErrorCode.INVALID_CONFIG, f"config {config.name} has no value")
    if config.config_operation == _SET:
        overrides[config.name] = config.value
        return
    definition = configs.definitions.get(config.name)
    if definition is None or definition.type != "list" or config.config_operation not in (_APPEND, _SUBTRACT):
        raise refusal(
            ErrorCode.INVALID_CONFIG, f"config {config.name}: operation {config.config_operation} is for lists alone"
        )
    words = [word for word in overrides.get(config.name, definition.default).split(",") if word]
    changed = config.value.split(",")
    if config.config_operation == _APPEND:
        words += [word for word in changed if word not in words]
    else:
        words = [word for word in words if word not in changed]
    overrides[config.name] = ",".join(words)


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, Versions(0, 1), handle)
