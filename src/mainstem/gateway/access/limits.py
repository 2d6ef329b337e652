"""The bounds of one process's HTTP, and the settings that change them: ``--set mainstem.gateway.NAME=VALUE``.

No web framework in here: the commands check the settings before they start a gateway. Immutable; safe from any thread.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mainstem.addresses import is_loopback
from mainstem.errors import ConfigError

PREFIX: Final = "mainstem.gateway."
STREAMS_MAX: Final = 2_048
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_REQUESTS_MAX: Final = 512
_HOST_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """The bounds of one process's HTTP. ``host_names`` None serves any host name."""

    body_bytes_max: int = 4 << 20
    bodies_bytes_max: int = 64 << 20
    answers_bytes_max: int = 256 << 20
    requests_max: int = _REQUESTS_MAX
    streams_max: int = STREAMS_MAX
    stream_files_max: int = sys.maxsize
    websockets_max: int = 64
    body_pause_s: float = 30.0
    host_names: frozenset[str] | None = LOOPBACK_NAMES
    origins: frozenset[str] = frozenset()

    def allows_origin(self, origin: str) -> bool:
        """Whether pages of another origin may do what others may."""
        return "*" in self.origins or origin in self.origins


class GatewaySetting(NamedTuple):
    """A setting of the gateway: the field of ``GatewayLimits`` that it sets, the values that it takes, its meaning."""

    field: str
    least: int
    most: int
    meaning: str


SETTINGS: Final = {
    PREFIX + name: setting
    for name, setting in {
        "body.bytes.max": GatewaySetting("body_bytes_max", 1_024, 1 << 30, "The bytes of one request's body"),
        "bodies.bytes.max": GatewaySetting(
            "bodies_bytes_max", 1_024, 1 << 40, "The bytes of all bodies that are held at once"
        ),
        "answers.bytes.max": GatewaySetting(
            "answers_bytes_max", 1 << 20, 1 << 40, "The bytes of all answers that clients have not read yet"
        ),
        "requests.max": GatewaySetting("requests_max", 1, 1_000_000, "The requests that are served at once"),
        "streams.max": GatewaySetting("streams_max", 1, 1_000_000, "The event streams that are open at once"),
        "websockets.max": GatewaySetting(
            "websockets_max", 1, 1_000_000, "The websockets that are open at once: pages of the console"
        ),
        "body.pause.ms": GatewaySetting("body_pause_s", 1, 86_400_000, "The longest pause while a body arrives"),
    }.items()
}


def served_names(host: str, others: Iterable[str], *, is_safe: bool) -> frozenset[str] | None:
    """The host names that a gateway serves: those of loopback and ``others``, under which a proxy passes requests on.

    ``host``: where it listens. On another address than loopback it serves any name: None. ``is_safe``: it asks for
    tokens, or the user insists. Raises ConfigError.
    """
    found = frozenset(name.strip().lower() for name in others)
    for name in found:
        if _HOST_NAME.fullmatch(name) is None:
            raise ConfigError(
                f"invalid host name {name[:100]!r}: give the name alone, without scheme and port, for example "
                "log.example.com"
            )
    if found and not is_safe:
        raise ConfigError(
            f"{min(found)} would be open to everyone who reaches the proxy: require tokens (--http-tokens), or insist "
            "with --insecure"
        )
    return LOOPBACK_NAMES | {host} | found if is_loopback(host) else None


def divided(settings: Iterable[str], *, log: str | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The settings of the log, and those of the gateway, which are checked here.

    ``log``: the address of a log that runs already, whose settings cannot be given here. Raises ConfigError.
    """
    all_settings = tuple(settings)
    of_gateway = tuple(text for text in all_settings if text.startswith(PREFIX))
    of_log = tuple(text for text in all_settings if not text.startswith(PREFIX))
    limits_of(of_gateway)
    if log is not None and of_log:
        raise ConfigError(f"--set {of_log[0]} is for a log, and the one at {log} runs already: set it there")
    return of_log, of_gateway


def limits_of(settings: Iterable[str], limits: GatewayLimits = GatewayLimits()) -> GatewayLimits:  # immutable
    """``limits`` with ``NAME=VALUE`` settings applied; the last of one name counts. Raises ConfigError."""
    changes: dict[str, float] = {}
    for text in settings:
        name, _, value = text.partition("=")
        setting = SETTINGS.get(name)
        if setting is None:
            raise ConfigError(f"unknown setting {name!r}: the gateway has {', '.join(SETTINGS)}")
        if not value.isdecimal() or len(value) > 20 or not setting.least <= int(value) <= setting.most:
            raise ConfigError(f"{name}={value}: give a whole number from {setting.least} to {setting.most}")
        changes[setting.field] = int(value) / 1_000 if name.endswith(".ms") else int(value)
    changed: GatewayLimits = replace(limits, **changes)  # type: ignore[arg-type]  # numbers, by the table above
    if changed.bodies_bytes_max < changed.body_bytes_max:
        raise ConfigError(
            f"{PREFIX}bodies.bytes.max={changed.bodies_bytes_max} leaves no room for one body of "
            f"{changed.body_bytes_max} bytes ({PREFIX}body.bytes.max)"
        )
    return changed


def files_for_streams(limits: GatewayLimits, open_files_max: int) -> int:
    """How many of the files that a process may open its streams may take: requests and idle connections need some."""
    return max(open_files_max // 2, open_files_max - 2 * limits.requests_max)
