"""How the log and the gateway are set, over HTTP; and that no secret is told."""

from __future__ import annotations

import httpx

from mainstem.client.log import Log
from mainstem.client.security import Security
from mainstem.gateway.operation.config_routes import security_json
from mainstem.testing.embedded import EmbeddedBroker


def test_every_broker_tells_its_settings(api: httpx.Client, mainstem_broker: EmbeddedBroker) -> None:
    document = api.get("/config").json()
    (broker,) = document["brokers"]
    configs = {config["name"]: config for config in broker["configs"]}
    assert (broker["address"], broker["controller"]) == (mainstem_broker.bootstrap, True)
    assert int(configs["num.partitions"]["value"]) >= 1
    assert configs["num.partitions"]["documentation"]
    assert document["gateway"]["bootstrap"] == mainstem_broker.bootstrap


def test_a_secret_setting_is_named_and_its_value_is_not(api: httpx.Client) -> None:
    (broker,) = api.get("/config").json()["brokers"]
    secrets = [config for config in broker["configs"] if config["sensitive"]]
    assert "ssl.key.password" in [config["name"] for config in secrets]
    assert {config["value"] for config in secrets} == {None}


def test_the_gateways_own_password_is_not_told() -> None:
    security = Security("SASL_PLAINTEXT", "PLAIN", "alice", "tell nobody")
    assert security_json(security)["sasl.username"] == "alice"
    assert security_json(security)["sasl.password"] is None


def test_a_log_that_is_away_is_a_503() -> None:
    from mainstem.gateway.access.limits import GatewayLimits
    from mainstem.gateway.server.app import create_app
    from mainstem.gateway.views.forwarding import ForwardingBackend
    from tests.gateway.served import served

    with (
        Log("127.0.0.1:1", timeout_s=0.2) as log,
        served(create_app(log, ForwardingBackend([]), GatewayLimits())) as api,
    ):
        answer = api.get("/config")
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/log-unavailable")
