"""The backup that ``serve`` and ``run`` start beside their own log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mainstem.node.stack import Stack


class ServedBackup(NamedTuple):
    """Where to, and how often. Without a URL nothing is started, or loaded."""

    url: str | None = None
    every_s: float = 0.0
    keep_s: float = 0.0

    @classmethod
    def of(cls, url: str | None, every: str, keep: str) -> ServedBackup:
        """From options, before anything is started. Raises InputError, MissingDependencyError."""
        if url is None:
            return cls()
        from mainstem.backup.moments import parse_duration
        from mainstem.object_stores.opening import check_url

        check_url(url)
        return cls(url, parse_duration(every), parse_duration(keep))

    def added_to(self, given: tuple[str, ...]) -> tuple[str, ...]:
        """The log's settings with the place of segments that have left the disk. Those that were given win."""
        return given if self.url is None else (f"mainstem.remote.storage.url={self.url}", *given)

    def start(self, stack: Stack) -> None:
        """Start it. It does not hold up the node: its store may be away."""
        if self.url is not None:
            stack.launch_backup(self.url, self.every_s, self.keep_s)
            stack.supervisor.wait_ready("backup")
