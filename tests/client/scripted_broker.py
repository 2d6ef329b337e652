"""A broker whose every answer a test decides: for what no real broker does on demand."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

from mainstem.protocol import codec
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from mainstem.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from mainstem.protocol.schema import ZERO_UUID, Message

Answer: TypeAlias = "Message | bytes | None"
"""A message, a frame's bytes with their length in front, or None: close the connection."""


class ScriptedBroker:
    """Gives every request to ``answer``; falls back to ApiVersions and Metadata of one topic ``t``."""

    def __init__(self, answer: Callable[[codec.Request], Answer | NotImplementedError]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.asked: list[tuple[int, int]] = []
        """API key and version of every request, in order."""
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @staticmethod
    def versions(*apis: tuple[int, int, int]) -> ApiVersionsResponse:
        listed = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in apis]
        return ApiVersionsResponse(error_code=0, api_keys=listed)

    def metadata(self, topics: Iterable[str] = ("t",), leader: int = 1) -> MetadataResponse:
        return cluster_metadata({1: self.port}, topics, [leader])

    def count(self, key: int) -> int:
        return sum(1 for asked, _ in self.asked if asked == key)

    def __enter__(self) -> ScriptedBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the listener was closed: the test is over
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client may break the connection at any time
            stream = connection.makefile("rb")
            while len(head := stream.read(4)) == 4:
                request = codec.decode_request(stream.read(struct.unpack(">i", head)[0]))
                self.asked.append((request.api_key, request.api_version))
                answer = self._answer(request)
                if isinstance(answer, NotImplementedError):
                    answer = self._fall_back(request)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer if isinstance(answer, bytes) else self._encoded(request, answer))

    def _encoded(self, request: codec.Request, answer: Message) -> bytes:
        return b"".join(codec.encode_response(request, answer))

    def _fall_back(self, request: codec.Request) -> Message:
        if request.api_key == ApiKey.METADATA:
            return self.metadata()
        return self.versions((ApiKey.PRODUCE, 3, 9), (ApiKey.FETCH, 4, 12), (ApiKey.LIST_OFFSETS, 1, 7), (3, 0, 12))


def cluster_metadata(ports: dict[int, int], topics: Iterable[str], leaders: Iterable[int]) -> MetadataResponse:
    """Brokers by id and port; every topic with one partition for each of ``leaders``."""
    partitions = [
        MetadataResponsePartition(
            error_code=0, partition_index=number, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
        )
        for number, leader in enumerate(leaders)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port) for node, port in ports.items()],
        controller_id=1,
        topics=[
            MetadataResponseTopic(error_code=0, name=name, topic_id=ZERO_UUID, partitions=partitions) for name in topics
        ],
    )


FALL_BACK = NotImplementedError()
