"""The gateway's limits as settings: read, checked, documented, and kept by a gateway that is started with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstem.errors import ConfigError
from mainstem.gateway.access.limits import SETTINGS, GatewayLimits, divided, limits_of
from mainstem.testing.embedded import EmbeddedBroker
from tests.hostile.serving import client, gateway

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"


def default_of(name: str) -> int:
    value = getattr(GatewayLimits(), SETTINGS[name].field)
    return round(value * 1_000) if name.endswith(".ms") else value


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_takes_its_default_and_stands_on_the_page_with_it(name: str) -> None:
    assert limits_of([f"{name}={default_of(name)}"]) == GatewayLimits()
    (row,) = (line for line in PAGE.read_text().splitlines() if f"`{name}`" in line and line.startswith("|"))
    assert re.search(rf"\b{default_of(name):,}\b", row)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("mainstem.gateway.requests", "unknown setting 'mainstem.gateway.requests': the gateway has mainstem.gateway"),
        ("mainstem.gateway.requests.max", "give a whole number from 1"),
        ("mainstem.gateway.requests.max=0", "give a whole number from 1"),
        ("mainstem.gateway.requests.max=many", "give a whole number"),
        ("mainstem.gateway.requests.max=-1", "give a whole number"),
        ("mainstem.gateway.requests.max=" + "9" * 5_000, "give a whole number"),
        ("mainstem.gateway.bodies.bytes.max=5000", "no room for one body"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_give(setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        divided([setting])


def test_settings_of_the_log_and_of_the_gateway_are_divided() -> None:
    of_gateway = "mainstem.gateway.streams.max=7"
    assert divided(["num.partitions=4", of_gateway]) == (("num.partitions=4",), (of_gateway,))


def test_a_setting_of_the_log_is_refused_for_a_log_that_runs_already() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions=4 is for a log, and the one at kafka1:9092 runs already"):
        divided(["num.partitions=4"], log="kafka1:9092")


def test_a_gateway_keeps_the_limits_that_it_is_started_with(mainstem_broker: EmbeddedBroker) -> None:
    settings = ("mainstem.gateway.body.bytes.max=2000", "mainstem.gateway.streams.max=3")
    options = [word for setting in settings for word in ("--set", setting)]
    with gateway(mainstem_broker.bootstrap, *options) as process, client(process) as api:
        shown = api.get("/config").json()["gateway"]
        assert (shown["body_bytes_max"], shown["streams_max"]) == (2_000, 3)
        refused = api.post("/topics/t/records", json={"records": [{"value": "x" * 2_000}]})
        assert (refused.status_code, refused.json()["detail"]) == (
            413,
            "the body is larger than 2000 bytes; send it in parts",
        )
