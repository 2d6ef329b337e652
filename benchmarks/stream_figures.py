"""What ``benchmarks.durable_streams`` measures of Mainstem and of its peer."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path

GOAL_MS = 5.0


@dataclass(frozen=True)
class Load:
    """How much is done, each within ``limit_s`` seconds: streams written, read one by one, followed, appended to."""

    streams: int
    reads: int
    followed: int
    appended: int = 300
    value: bytes = b"v" * 100
    limit_s: float = 900.0


@dataclass
class StreamFigures:
    """What was measured of one server."""

    server: str
    written_s: float = 0.0
    replay_ms: list[float] = field(default_factory=list)
    followed: int = 0
    opened_s: float = 0.0
    follow_ms: list[float] = field(default_factory=list)
    memory_before_mb: float = 0.0
    memory_mb: float = 0.0
    disk_bytes: int = 0

    def lines(self, load: Load) -> list[str]:
        """The figures, a line each."""
        return [
            f"{load.streams:,} streams written in {self.written_s:.0f} s",
            f"replay of one stream: {shown(self.replay_ms)} (goal: p99 <= {GOAL_MS:g} ms)",
            f"{self.followed:,} streams followed after {self.opened_s:.0f} s",
            f"append to follower meanwhile: {shown(self.follow_ms)}",
            f"memory of its own (RssAnon): {self.memory_before_mb:.0f} MB, {self.memory_mb:.0f} MB with followers",
            f"disk: {self.disk_bytes / 1e6:.0f} MB, {self.disk_bytes / load.streams:.0f} bytes a stream",
        ]


def ratios(ours: StreamFigures, peer: StreamFigures) -> list[str]:
    """Ours divided by the peer's, a line each: below 1 is better."""
    pairs = {
        "time to write": (ours.written_s, peer.written_s),
        "replay, p50": (quantile(ours.replay_ms, 50), quantile(peer.replay_ms, 50)),
        "replay, p99": (quantile(ours.replay_ms, 99), quantile(peer.replay_ms, 99)),
        "append to follower, p50": (quantile(ours.follow_ms, 50), quantile(peer.follow_ms, 50)),
        "append to follower, p99": (quantile(ours.follow_ms, 99), quantile(peer.follow_ms, 99)),
        "memory before followers": (ours.memory_before_mb, peer.memory_before_mb),
        "memory with followers": (ours.memory_mb, peer.memory_mb),
        "disk": (ours.disk_bytes, peer.disk_bytes),
    }
    return [f"{name}: {mine / theirs:.2f} of {peer.server}'s" for name, (mine, theirs) in pairs.items()]


def quantile(took_ms: list[float], percent: int) -> float:
    """A percentile, in milliseconds."""
    return statistics.quantiles(took_ms, n=100)[percent - 1]


def shown(took_ms: list[float]) -> str:
    """Median and 99th percentile."""
    return f"p50 {quantile(took_ms, 50):.2f} ms, p99 {quantile(took_ms, 99):.2f} ms"


def bytes_in(directory: Path) -> int:
    """The size of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
