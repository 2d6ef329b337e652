"""The metrics of clients, as the handlers and ``/metrics`` use them. The package's ``__init__`` is the map.

Payloads are decompressed, bounded, and read in a thread. Concurrency: the event loop only, otherwise.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mainstem.broker.error_codes import refusal
from mainstem.broker.telemetry.client_instances import ClientInstance, ClientInstances
from mainstem.broker.telemetry.otlp import ReadMetrics, read_metrics
from mainstem.broker.telemetry.received_metrics import LABEL_ATTRIBUTES, ReceivedMetrics
from mainstem.broker.telemetry.subscription_configs import ClientMetricsConfigs
from mainstem.errors import CorruptBatchError, InvalidRecordError
from mainstem.protocol.errors import ErrorCode
from mainstem.record.compress import decompress
from mainstem.record.constants import Compression

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.clock import Clock
    from mainstem.log.node.metadata import Metadata
    from mainstem.protocol.schema import Buffer

DECOMPRESSED_BYTES_MAX: Final = 8 << 20
_READERS: Final = 2
_FORGET_EVERY_S: Final = 10.0
_RESERVED_IDS: Final = frozenset({uuid.UUID(int=0), uuid.UUID(int=1)})
ACCEPTED_COMPRESSIONS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


class Telemetry:
    """The metrics of clients of one node."""

    def __init__(self, config: BrokerConfig, metadata: Metadata, clock: Clock) -> None:
        self.configs = ClientMetricsConfigs(metadata)
        self.instances = ClientInstances(self.configs)
        self.bytes_max = int(config.get("telemetry.max.bytes"))
        self.received = ReceivedMetrics(int(config.get("mainstem.telemetry.series.max")))
        self.pushes = 0
        self.refused_pushes = 0
        self._clock = clock
        self._readers = asyncio.Semaphore(_READERS)

    def subscriptions(self, instance_id: uuid.UUID, attributes: Mapping[str, str]) -> ClientInstance:
        """Return what a client is subscribed to; a client without an id gets one. Raises RemoteError."""
        now_s = self._clock.monotonic_s()
        instance = self.instances.of(uuid.uuid4() if instance_id.int == 0 else instance_id, attributes, now_s)
        instance.ask(now_s)
        return instance

    async def push(
        self,
        instance_id: uuid.UUID,
        attributes: Mapping[str, str],
        subscription_id: int,
        *,
        terminating: bool,
        payload: tuple[int, Buffer],
    ) -> None:
        """Take a push; ``payload`` is the number of its codec and its bytes. Raises RemoteError."""
        try:
            if instance_id in _RESERVED_IDS:
                raise refusal(ErrorCode.INVALID_REQUEST, "the client has no instance id: ask for its subscriptions")
            now_s = self._clock.monotonic_s()
            self.instances.of(instance_id, attributes, now_s).push(now_s, subscription_id, terminating=terminating)
            metrics = await self._read(*payload)
        except Exception:
            self.refused_pushes += 1
            raise
        self.pushes += 1
        self.received.left_out += metrics.left_out
        self.received.take(instance_id, attributes.get("client_id", ""), metrics.points)

    async def _read(self, codec: int, data: Buffer) -> ReadMetrics:
        if codec not in Compression._value2member_map_:
            raise refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {codec}")
        if len(data) > self.bytes_max:
            raise refusal(ErrorCode.TELEMETRY_TOO_LARGE, f"{len(data)} bytes of metrics, more than {self.bytes_max}")
        async with self._readers:
            try:
                return await asyncio.to_thread(_read, Compression(codec), bytes(data))
            except (CorruptBatchError, InvalidRecordError) as error:
                raise refusal(ErrorCode.INVALID_RECORD, str(error)) from error

    async def keep(self) -> None:
        """Forget the clients that were silent for too long, and their series, again and again."""
        while True:
            await asyncio.sleep(_FORGET_EVERY_S)
            self.forget_silent()

    def forget_silent(self) -> None:
        """Forget the clients that were silent for too long, and their series."""
        self.instances.forget_silent(self._clock.monotonic_s())
        self.received.keep_only(self.instances)


def _read(codec: Compression, data: bytes) -> ReadMetrics:
    return read_metrics(memoryview(decompress(codec, data, limit_bytes=DECOMPRESSED_BYTES_MAX)), LABEL_ATTRIBUTES)
