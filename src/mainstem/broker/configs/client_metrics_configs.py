"""The configs of client metrics (KIP-714): Kafka's names, types, bounds and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mainstem.log.partition.config_values import ConfigDef, ConfigType, definitions, whole, words_of

INTERVAL_MS_DEFAULT: Final = 300_000
ALL_METRICS: Final = "*"
CLIENT_ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The attributes of a client that a subscription may match."""


def _parse_match(text: str) -> dict[str, str]:
    """Parse ``attribute=pattern`` pairs with commas between. Raises ValueError."""
    patterns = {}
    for word in words_of(text):
        attribute, separator, pattern = (part.strip() for part in word.partition("="))
        if not separator or not pattern or "=" in pattern or attribute not in CLIENT_ATTRIBUTES:
            raise ValueError(f"must be ATTRIBUTE=PATTERN with commas between, of {', '.join(CLIENT_ATTRIBUTES)}")
        patterns[attribute] = pattern
    return patterns


CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigDef]] = MappingProxyType(
    definitions(
        {
            ("interval.ms", whole(100, 3_600_000), INTERVAL_MS_DEFAULT): "How often clients send the metrics",
            ("match", ConfigType("list", _parse_match), ""): "The clients that send them: ATTRIBUTE=PATTERN pairs with "
            "commas between, all of which must match; empty: every client",
            ("metrics", ConfigType("list", words_of), ""): "Prefixes of the names of metrics, with commas between; *: "
            "all metrics; empty: none",
        }
    )
)
