"""``mainstem bench``: the log's own rates through librdkafka."""

from __future__ import annotations

from mainstem.cli import options


def bench(bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP, json: options.Json = False) -> None:
    """Measure the log's own rates."""
