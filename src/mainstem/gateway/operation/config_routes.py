"""``GET /config``: the settings of the log and of this gateway, without secrets.

A secret setting has ``sensitive`` true and the value null for every caller. The passwords among the options by which
the gateway logs in are null, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query
from starlette.responses import Response

import mainstem
from mainstem.client.admin.cluster_admin import BrokerDescription
from mainstem.client.log import Log
from mainstem.client.security import OPTIONS, Security
from mainstem.client.wire.admin.configs import BrokerSetting
from mainstem.gateway.access.access_rules import ADMIN_ALL
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery

_THREADS_MAX: Final = 2
_SECRETS: Final = frozenset({"sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.password"})


def config_router(log: Log, limits: GatewayLimits) -> Routes:
    """``/config``."""
    router = Routes("operation")
    workers = Workers(_THREADS_MAX)

    @router.declare(
        "GET",
        "/config",
        "How the brokers and this gateway are set; secrets are null",
        ADMIN_ALL,
        success("The settings", "Config"),
    )
    async def tell(_: Annotated[NoQuery, Query()]) -> Response:
        brokers = await workers.run(log.cluster_admin.describe)
        return json_response(
            {
                "version": mainstem.__version__,
                "gateway": _gateway(log, limits),
                "brokers": [_broker(broker) for broker in brokers],
            }
        )

    return router


def _gateway(log: Log, limits: GatewayLimits) -> dict[str, Any]:
    return {
        "bootstrap": log.bootstrap,
        "security": security_json(log.security),
        "body_bytes_max": limits.body_bytes_max,
        "bodies_bytes_max": limits.bodies_bytes_max,
        "answers_bytes_max": limits.answers_bytes_max,
        "requests_max": limits.requests_max,
        "streams_max": limits.streams_max,
        "websockets_max": limits.websockets_max,
        "body_pause_s": limits.body_pause_s,
        "origins": sorted(limits.origins),
        "host_names": None if limits.host_names is None else sorted(limits.host_names),
    }


def security_json(security: Security) -> dict[str, str | None]:
    """The options that are set, by Kafka's names; a password's value is None."""
    options = {name: str(getattr(security, field)) for name, field in OPTIONS.items() if name != "sasl.mechanisms"}
    return {name: None if name in _SECRETS else value for name, value in options.items() if value}


def _broker(broker: BrokerDescription) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "address": broker.address,
        "controller": broker.is_controller,
        "configs": [_setting(setting) for setting in broker.settings],
    }


def _setting(setting: BrokerSetting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": setting.value,
        "source": setting.source,
        "sensitive": setting.is_sensitive,
        "read_only": setting.is_read_only,
        "documentation": setting.documentation,
    }
