from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstem.broker.configs.broker_config import SETTINGS, BrokerConfig
from mainstem.errors import ConfigError
from mainstem.log.partition.config import CONFIGS


def test_another_address_needs_someone_who_insists() -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        BrokerConfig(Path("x"), host="0.0.0.0")
    assert BrokerConfig(Path("x"), host="0.0.0.0", insecure=True).host == "0.0.0.0"


def test_every_default_is_a_value_of_its_setting() -> None:
    config = BrokerConfig(Path("x"))
    for name in SETTINGS:
        config.get(name)


@pytest.mark.parametrize(
    ("name", "text"), [("x", "1"), ("num.partitions", "0"), ("num.partitions", "a"), ("log.cleanup.policy", "x")]
)
def test_an_impossible_setting_is_refused_with_its_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig(Path("x"), settings={name: text})


def test_kafkas_names_for_topic_defaults_reach_the_topics() -> None:
    config = BrokerConfig(Path("x"), settings={"log.retention.ms": "5", "num.partitions": "3"})
    assert config.topic_defaults() == {"retention.ms": "5"}


def test_every_topic_config_of_kafkas_has_a_default_among_the_settings() -> None:
    # Log features, schema validation, dead letters, and what is remote or of replicas, are asked for by topic.
    kafkas = {name for name in CONFIGS if not re.match(r"mainstem|confluent|errors|remote|(leader|follower)\.", name)}
    assert {setting.topic_config for setting in SETTINGS.values()} - {None} == kafkas
