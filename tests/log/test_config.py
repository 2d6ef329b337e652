from __future__ import annotations

import pytest

from mainstem.errors import ConfigError
from mainstem.log.partition.config import CONFIGS, LogConfig, parse_config


def test_defaults_are_kafkas() -> None:
    config = LogConfig.of({})
    assert (config.segment_bytes, config.index_interval_bytes, config.max_message_bytes) == (1 << 30, 4096, 1_048_588)


@pytest.mark.parametrize("definition", CONFIGS.values(), ids=lambda definition: definition.name)
def test_every_config_accepts_its_own_default_and_is_described(definition: object) -> None:
    assert definition.parse(definition.default) is not None  # type: ignore[attr-defined]
    assert len(definition.doc) > 10  # type: ignore[attr-defined]


def test_the_fields_default_to_what_the_table_says() -> None:
    spelled_out = LogConfig.of({name: definition.default for name, definition in CONFIGS.items()})
    for field in LogConfig.__dataclass_fields__:
        if field != "overrides":
            assert getattr(spelled_out, field) == getattr(LogConfig(), field), field


def test_a_topics_own_value_wins_over_the_nodes() -> None:
    config = LogConfig.of({"segment.bytes": "1000"}, {"segment.bytes": "2000", "retention.ms": "5"})
    assert (config.segment_bytes, config.retention_ms) == (1000, 5)


def test_overrides_are_only_those_of_the_topic() -> None:
    assert dict(LogConfig.of({"retention.ms": "5"}, {"segment.bytes": "2000"}).overrides) == {"retention.ms": "5"}


def test_flush_waits_for_the_disk_unless_told_otherwise() -> None:
    assert LogConfig.of({}).flushes_before_commit
    assert not LogConfig.of({"flush": "os"}).flushes_before_commit


def test_both_cleanup_policies_at_once() -> None:
    config = LogConfig.of({"cleanup.policy": "compact, delete"})
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.is_compacted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "much"),
        ("cleanup.policy", "shrink"),
        ("cleanup.policy", "delete,delete"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "yes"),
        ("flush", "never"),
        ("retention.ms", "-2"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        parse_config(name, value)


def test_an_unknown_config_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"segment\.byte"):
        LogConfig.of({"segment.byte": "1"})
