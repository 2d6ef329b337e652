"""The limits and the memory that all connections of a node share.

Concurrency: one event loop.
"""

from __future__ import annotations

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.network.framing import SCRATCH_BYTES
from mainstem.broker.network.request_memory import RequestMemory
from mainstem.broker.network.unauthenticated import Unauthenticated
from mainstem.broker.network.unread_answers import UnreadAnswers
from mainstem.open_files import connections_limit


class NetworkResources:
    """The limits and the memory of all connections."""

    def __init__(self, config: BrokerConfig) -> None:
        self.connections_max = 0
        self.frame_bytes_max = int(config.get("socket.request.max.bytes"))
        self.idle_s_max = int(config.get("connections.max.idle.ms")) / 1000
        self.stall_s_max = int(config.get("mainstem.request.stall.ms")) / 1000
        self.request_rate_min = int(config.get("mainstem.request.rate.min"))
        self.request_memory = _request_memory(config)
        self.unauthenticated_memory = RequestMemory(int(config.get("mainstem.unauthenticated.request.bytes")))
        self.unauthenticated = Unauthenticated(int(config.get("mainstem.unauthenticated.connections.max")))
        self.unread = UnreadAnswers(int(config.get("mainstem.queued.max.response.bytes")), self.idle_s_max)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))

    def limit_connections(self, connections_max: int) -> None:
        """Take the value of ``max.connections``, as far as the process may open files."""
        self.connections_max = min(connections_max, connections_limit())


def _request_memory(config: BrokerConfig) -> RequestMemory:
    """Create the memory of requests; a share of -1 is half of the larger amount."""
    limit = int(config.get("queued.max.request.bytes"))
    share = int(config.get("mainstem.queued.principal.request.bytes"))
    share = share if share > 0 else limit // 2
    connection = int(config.get("mainstem.queued.connection.request.bytes"))
    return RequestMemory(limit, share, connection if connection > 0 else share // 2)
