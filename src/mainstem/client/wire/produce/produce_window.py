"""Produce requests in flight, several at once: the caller makes the next batches while the log writes.

Order is kept within each partition, and each batch is appended once: at most five requests are in flight, as many as a
log remembers of a producer, so it recognises a batch that is sent again. When a request fails, for any reason, the
window sends nothing more and waits for the other answers. Then it sends the unacknowledged batches again one by one, in
order, by ``WireClient.produce``, which retries transient errors and raises others.

Bounded: at most ``bytes_max`` of batches are in flight, or one request. When the log answers with a throttle time,
nothing is sent for that time.

While anything is in flight nothing else may use the client: ``drain`` first. Owned by one thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mainstem.client.wire.cluster.cluster import ProduceFlight, WireClient
from mainstem.errors import RecordTooLargeError
from mainstem.model import TopicPartition

REQUESTS_MAX: Final = 5
BYTES_MAX: Final = 8 * 1024 * 1024
_REQUEST_BYTES: Final = 4 * 1024 * 1024

Acknowledged = Callable[[TopicPartition, bytes, int], None]
"""Told the partition, the batch, and the offset of its first record."""


class ProduceWindow:
    """The produce requests in flight of one producer. Batches carry its id, epoch and sequences."""

    def __init__(
        self,
        client: WireClient,
        acknowledged: Acknowledged,
        *,
        transactional_id: str | None = None,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._client = client
        self._acknowledged = acknowledged
        self._transactional_id = transactional_id
        self._bytes_max = bytes_max
        self._flights: deque[ProduceFlight] = deque()
        self._quiet_until_s = 0.0

    def send(self, batches: Mapping[TopicPartition, bytes]) -> None:
        """Send a batch to each of several partitions. Returns when there is room for more.

        Raises what ``WireClient.produce`` does, for these batches or for earlier ones.
        """
        for part in _parts(batches):
            flights = self._client.send_produce(part, transactional_id=self._transactional_id)
            self._flights.extend(flights)
            if any(flight.connection is None for flight in flights):
                self._recover()
            while len(self._flights) >= REQUESTS_MAX or self._bytes_in_flight() > self._bytes_max:
                self._receive()
            if (left_s := self._quiet_until_s - time.monotonic()) > 0:
                time.sleep(left_s)

    def drain(self) -> None:
        """Return when everything is acknowledged. Raises what ``send`` does."""
        while self._flights:
            self._receive()

    def abandon(self) -> None:
        """Wait for nothing more; the client can be used again. What was in flight may be appended or not."""
        for flight in self._flights:
            if flight.connection is not None:
                flight.connection.close()
        self._flights.clear()

    def _bytes_in_flight(self) -> int:
        return sum(len(batch) for flight in self._flights for batch in flight.batches.values())

    def _receive(self) -> None:
        """The answer to the oldest request."""
        if not self._take(self._flights[0]):
            self._recover()
        else:
            self._flights.popleft()

    def _take(self, flight: ProduceFlight) -> bool:
        """Whether all of its batches are acknowledged now. Acknowledged ones are removed."""
        offsets, throttle_ms = self._client.receive_produced(flight)
        self._quiet_until_s = max(self._quiet_until_s, time.monotonic() + throttle_ms / 1000)
        for tp, base_offset in offsets.items():
            self._acknowledged(tp, flight.batches.pop(tp), base_offset)
        return not flight.batches

    def _recover(self) -> None:
        flights = list(self._flights)
        self._flights.clear()
        for flight in flights:
            self._take(flight)
        for flight in flights:
            for tp, batch in flight.batches.items():
                try:
                    base_offset = self._client.produce(tp, batch, transactional_id=self._transactional_id)
                except RecordTooLargeError as error:
                    raise RecordTooLargeError(
                        f"{tp} takes no record batch of {len(batch)} bytes: raise max.message.bytes of topic "
                        f"{tp.topic}, or write smaller ones (option kafka.max.request.size)"
                    ) from error
                self._acknowledged(tp, batch, base_offset)


def _parts(batches: Mapping[TopicPartition, bytes]) -> Iterator[dict[TopicPartition, bytes]]:
    """The batches in requests of a bearable size."""
    part: dict[TopicPartition, bytes] = {}
    size = 0
    for tp, batch in batches.items():
        if part and size + len(batch) > _REQUEST_BYTES:
            yield part
            part, size = {}, 0
        part[tp] = batch
        size += len(batch)
    if part:
        yield part
