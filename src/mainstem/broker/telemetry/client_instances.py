"""Which client sends which metrics, and when it may ask or send again. All of it is in memory, as in Kafka.

A client gets an id at its first request. What it is subscribed to follows from its attributes; a change of a
subscription gives it a new subscription id, which the client learns by UNKNOWN_SUBSCRIPTION_ID at its next push.

At most ``INSTANCES_MAX`` clients are known; one more replaces the one that was silent for longest. A client that is
silent for three intervals, and for a minute at least, is forgotten. Concurrency: the event loop only.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstem.broker.configs.client_metrics_configs import ALL_METRICS, INTERVAL_MS_DEFAULT
from mainstem.broker.error_codes import refusal
from mainstem.broker.telemetry.subscription_configs import ClientMetricsConfigs, ClientSubscription
from mainstem.protocol.errors import ErrorCode
from mainstem.record.checksum import crc32c

INSTANCES_MAX: Final = 10_000
_SILENT_S_MIN: Final = 60.0
_SILENT_INTERVALS: Final = 3


@dataclass(slots=True)
class ClientInstance:
    """One client. ``metrics`` are the prefixes that it is asked for; times are monotonic."""

    instance_id: uuid.UUID
    version: int
    metrics: Sequence[str]
    interval_ms: int
    subscription_id: int
    seen_s: float
    asked_s: float = float("-inf")
    pushed_s: float = float("-inf")
    may_ask: bool = False
    may_push: bool = False
    is_terminating: bool = False

    def ask(self, now_s: float) -> None:
        """Take a GetTelemetrySubscriptions request. Raises RemoteError when it comes too early."""
        is_early = now_s - max(self.asked_s, self.pushed_s) < self.interval_ms / 1000
        if is_early and not self.may_ask:
            raise refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the next push interval has not begun")
        self.asked_s, self.may_ask, self.may_push = now_s, False, True

    def push(self, now_s: float, subscription_id: int, *, terminating: bool) -> None:
        """Take a PushTelemetry request. Raises RemoteError when it comes too early or for an old subscription.

        The first push after the client asked comes when the client likes: it spreads its pushes over time.
        """
        if self.is_terminating:
            raise refusal(ErrorCode.INVALID_REQUEST, "the client has ended its metrics already")
        self.is_terminating = terminating
        is_early = now_s - self.pushed_s < self.interval_ms / 1000
        if is_early and not self.may_push and not terminating:
            raise refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the next push interval has not begun")
        self.pushed_s, self.may_push = now_s, False
        if subscription_id != self.subscription_id:
            self.may_ask = True
            raise refusal(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscriptions have changed: ask for them again")

    def is_silent(self, now_s: float) -> bool:
        """Whether the client is to be forgotten."""
        return now_s - self.seen_s > max(_SILENT_S_MIN, _SILENT_INTERVALS * self.interval_ms / 1000)


class ClientInstances:
    """The known clients, those that were silent for longest first."""

    def __init__(self, configs: ClientMetricsConfigs) -> None:
        self._configs = configs
        self._by_id: OrderedDict[uuid.UUID, ClientInstance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, instance_id: object) -> bool:
        return instance_id in self._by_id

    def of(self, instance_id: uuid.UUID, attributes: Mapping[str, str], now_s: float) -> ClientInstance:
        """Return the client of that id, with what it is subscribed to now."""
        instance = self._by_id.get(instance_id)
        if instance is None or instance.version != self._configs.version:
            renewed = _instance(instance_id, attributes, self._configs, now_s)
            if instance is not None:
                renewed.asked_s, renewed.pushed_s = instance.asked_s, instance.pushed_s
                renewed.may_ask = True
            instance = self._by_id[instance_id] = renewed
        instance.seen_s = now_s
        self._by_id.move_to_end(instance_id)
        while len(self._by_id) > INSTANCES_MAX:
            self._by_id.popitem(last=False)
        return instance

    def forget_silent(self, now_s: float) -> None:
        """Forget the clients that were silent for too long."""
        for instance_id in [each.instance_id for each in self._by_id.values() if each.is_silent(now_s)]:
            del self._by_id[instance_id]


def _instance(
    instance_id: uuid.UUID, attributes: Mapping[str, str], configs: ClientMetricsConfigs, now_s: float
) -> ClientInstance:
    known = {**attributes, "client_instance_id": str(instance_id)}
    meant = [each for each in configs.all() if each.matches(known)]
    metrics = _metrics_of(meant)
    interval_ms = min((each.interval_ms for each in meant), default=INTERVAL_MS_DEFAULT)
    return ClientInstance(
        instance_id, configs.version, metrics, interval_ms, _subscription_id(instance_id, metrics, interval_ms), now_s
    )


def _metrics_of(subscriptions: Sequence[ClientSubscription]) -> list[str]:
    prefixes = {prefix for each in subscriptions for prefix in each.metrics}
    return [ALL_METRICS] if ALL_METRICS in prefixes else sorted(prefixes)


def _subscription_id(instance_id: uuid.UUID, metrics: Sequence[str], interval_ms: int) -> int:
    """A number that differs when what the client is asked for does."""
    number = crc32c(f"{metrics} {interval_ms} {instance_id}".encode())
    return number - (1 << 32) if number >> 31 else number
