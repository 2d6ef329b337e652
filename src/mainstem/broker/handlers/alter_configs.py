"""AlterConfigs (33), versions 0–2: replaces all configs of a topic or a group by those that are given; durable when
answered.

``validate_only`` changes nothing. Deliberate: a node's settings are given when it starts: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.broker.config_entries import changeable_configs
from mainstem.broker.failures import error_code, refusal
from mainstem.errors import MainstemError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def handle(node: Node, call: Call) -> AlterConfigsResponse:
    """Serve one request; the top of the file says how."""
    body: AlterConfigsRequest = call.body
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
    return AlterConfigsResponse(responses=responses)


def _alter(node: Node, asked: AlterConfigsResource, *, validate_only: bool) -> None:
    configs = changeable_configs(node, asked.resource_type, asked.resource_name)
    overrides = {}
    for config in asked.configs:
        if config.value is None:
            raise refusal(ErrorCode.INVALID_CONFIG, f"config {config.name} has no value")
        overrides[config.name] = config.value
    configs.replace(overrides, validate_only)


API = Api(ApiKey.ALTER_CONFIGS, Versions(0, 2), handle)
