"""A log that does only what cannot be left out: how fast can Mainstem be in Python? ``python -m benchmarks.bare_log``.

One loop over ``epoll`` parses produce requests, checks each batch's CRC, gives it its offset, appends it to a file,
calls ``fdatasync`` once for all requests that arrived together, answers the consumers that wait, and then the
producers. It checks no order, no sizes and no rights, keeps no states of producers, no time index, no metrics and no
quotas, and does not recover. All other requests go to a Mainstem log behind it, so that real clients can use it.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import struct
import sys
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.brokers import Mainstem, Process
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Request, decode_request, decode_response, encode_response
from mainstem.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from mainstem.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mainstem.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from mainstem.record.checksum import crc32c

_NAMED_MAX = 12
"""The last version of Produce and of Fetch that names topics; later ones have their ids."""
_RECEIVED = 64 << 10
_EARLIEST = -2
_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")


class BareLog(Process):
    """The bare log as a process, with a Mainstem log behind it."""

    name = "bare loop"

    def __init__(self, directory: Path, *, syncs: bool) -> None:
        super().__init__(directory)
        self._behind = _Behind(directory / "behind", self.bootstrap)
        self._syncs = syncs

    def argv(self) -> list[str]:
        words = ["--port", str(self.port), "--behind", str(self._behind.port), "--directory", str(self.directory)]
        return [sys.executable, "-m", "benchmarks.bare_log", *words, *([] if self._syncs else ["--no-sync"])]

    def spawn(self) -> None:
        self._behind.start()
        super().spawn()

    def stop(self) -> None:
        self._behind.stop()
        super().stop()


class _Behind(Mainstem):
    def __init__(self, directory: Path, advertised: str) -> None:
        super().__init__(directory)
        self._advertised = advertised

    def argv(self) -> list[str]:
        return [*super().argv(), "--advertise", self._advertised]


class _Partition:
    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self.size = self.next_offset = 0
        self.bases: list[int] = []
        self.positions: list[int] = []

    def append(self, batch: memoryview) -> int:
        """Append a batch; returns its first offset."""
        if crc32c(batch[21:]) != int.from_bytes(batch[17:21], "big"):
            raise ValueError("the CRC of a batch is wrong")
        base = self.next_offset
        os.writev(self.file, [_OFFSET.pack(base), batch[8:]])
        self.bases.append(base)
        self.positions.append(self.size)
        self.size += len(batch)
        self.next_offset = base + int.from_bytes(batch[23:27], "big") + 1
        return base

    def read(self, offset: int, bytes_max: int) -> bytes:
        """From the batch with this offset on."""
        if offset >= self.next_offset:
            return b""
        position = self.positions[bisect_right(self.bases, offset) - 1]
        return os.pread(self.file, min(bytes_max, self.size - position), position)


class _Connection:
    """A client's connection, and one of its own to the log behind."""

    def __init__(self, client: socket.socket, behind: int) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client = client
        self.waiting: Request | None = None
        self._behind = socket.create_connection(("127.0.0.1", behind))
        self._behind.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._part = b""
        self._frame = bytearray()
        self._filled = 0

    def receive(self) -> list[memoryview] | None:
        """The frames that are complete now; None when the client has closed."""
        if self._frame:
            count = self.client.recv_into(memoryview(self._frame)[self._filled :])
            self._filled += count
            if not count:
                return None
            if self._filled < len(self._frame):
                return []
            frame, self._frame = memoryview(self._frame), bytearray()
            return [frame]
        data = self.client.recv(_RECEIVED)
        if not data:
            return None
        data, frames, at = self._part + data, [], 0
        while len(data) - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            if len(data) - at - 4 < length:
                self._frame, self._filled = bytearray(length), len(data) - at - 4
                self._frame[: self._filled] = data[at + 4 :]
                at = len(data)
                break
            frames.append(memoryview(data)[at + 4 : at + 4 + length])
            at += 4 + length
        self._part = data[at:]
        return frames

    def ask_behind(self, frame: memoryview) -> bytes:
        """The answer of the log behind, without its length."""
        self._behind.sendall(_LENGTH.pack(len(frame)) + bytes(frame))
        (length,) = _LENGTH.unpack(self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        return self._behind.recv(count, socket.MSG_WAITALL)

    def send(self, answer: bytes) -> None:
        """Send an answer. A client that has closed gets none; ``receive`` notices that it has."""
        with suppress(ConnectionError):
            self.client.sendall(answer)

    def close(self) -> None:
        self.client.close()
        self._behind.close()


class _Loop:
    def __init__(self, port: int, behind: int, directory: Path, *, syncs: bool) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._behind = behind
        self._directory = directory
        self._syncs = syncs
        self._connections: dict[int, _Connection] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._written: set[_Partition] = set()
        self._answers: list[tuple[_Connection, bytes]] = []

    def run(self) -> None:
        poll = select.epoll()
        poll.register(self._listener, select.EPOLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._listener.fileno():
                    connection = _Connection(self._listener.accept()[0], self._behind)
                    self._connections[connection.client.fileno()] = connection
                    poll.register(connection.client, select.EPOLLIN)
                    continue
                connection = self._connections[descriptor]
                try:
                    frames = connection.receive()
                except ConnectionResetError:
                    frames = None
                if frames is None:
                    poll.unregister(descriptor)
                    self._connections.pop(descriptor).close()
                    self._answers = [each for each in self._answers if each[0] is not connection]
                for frame in frames or ():
                    self._handle(connection, frame)
            self._finish()

    def _handle(self, connection: _Connection, frame: memoryview) -> None:
        if connection.waiting is not None:
            self._answer_fetch(connection, connection.waiting, is_last=True)
        key = int.from_bytes(frame[:2], "big")
        if key == ApiKey.PRODUCE:
            self._produce(connection, decode_request(frame))
        elif key == ApiKey.FETCH:
            self._answer_fetch(connection, decode_request(frame), is_last=False)
        elif key == ApiKey.LIST_OFFSETS:
            self._list_offsets(connection, decode_request(frame))
        elif key == ApiKey.API_VERSIONS:
            self._api_versions(connection, decode_request(frame), frame)
        else:
            answer = connection.ask_behind(frame)
            self._answers.append((connection, _LENGTH.pack(len(answer)) + answer))

    def _finish(self) -> None:
        """Sync what was written; then answer who waits for it, then its producers."""
        if self._written:
            if self._syncs:
                for partition in self._written:
                    os.fdatasync(partition.file)
            self._written.clear()
            acknowledged, self._answers = self._answers, []
            for connection in self._connections.values():
                if connection.waiting is not None:
                    self._answer_fetch(connection, connection.waiting, is_last=False)
            self._answers += acknowledged
        for connection, answer in self._answers:
            connection.send(answer)
        self._answers.clear()

    def _answer(self, connection: _Connection, request: Request, body: Any) -> None:
        self._answers.append((connection, b"".join(encode_response(request, body))))

    def _partition(self, topic: str, number: int) -> _Partition:
        if (topic, number) not in self._partitions:
            self._partitions[topic, number] = _Partition(self._directory / f"{topic}-{number}.log")
        return self._partitions[topic, number]

    def _produce(self, connection: _Connection, request: Request) -> None:
        topics = []
        for topic in request.body.topic_data:
            answers = []
            for data in topic.partition_data:
                partition = self._partition(topic.name, data.index)
                base = partition.append(data.records)
                self._written.add(partition)
                answers.append(PartitionProduceResponse(index=data.index, error_code=0, base_offset=base))
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        self._answer(connection, request, ProduceResponse(responses=topics))

    def _answer_fetch(self, connection: _Connection, request: Request, *, is_last: bool) -> None:
        """Answer, or let it wait where nothing is there and it is not its ``is_last`` chance."""
        found, topics = False, []
        for topic in request.body.topics:
            answers = []
            for asked in topic.partitions:
                partition = self._partition(topic.topic, asked.partition)
                records = partition.read(asked.fetch_offset, asked.partition_max_bytes)
                found = found or bool(records)
                end = partition.next_offset
                data = PartitionData(
                    partition_index=asked.partition,
                    error_code=0,
                    high_watermark=end,
                    last_stable_offset=end,
                    aborted_transactions=(),
                    records=records,
                )
                answers.append(data)
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=answers))
        if found or is_last or not request.body.max_wait_ms:
            connection.waiting = None
            self._answer(connection, request, FetchResponse(responses=topics))
        else:
            connection.waiting = request

    def _list_offsets(self, connection: _Connection, request: Request) -> None:
        topics = []
        for topic in request.body.topics:
            answers = []
            for asked in topic.partitions:
                end = self._partition(topic.name, asked.partition_index).next_offset
                offset = 0 if asked.timestamp == _EARLIEST else end
                answers.append(
                    ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=0, offset=offset)
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        self._answer(connection, request, ListOffsetsResponse(topics=topics))

    def _api_versions(self, connection: _Connection, request: Request, frame: memoryview) -> None:
        """What the log behind says, without the versions of Produce and Fetch that name topics by their ids."""
        body = decode_response(connection.ask_behind(frame), ApiKey.API_VERSIONS, request.api_version).body
        for api in body.api_keys:
            if api.api_key in (ApiKey.PRODUCE, ApiKey.FETCH):
                api.max_version = _NAMED_MAX
        self._answer(connection, request, body)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bare_log", description="A log that does little.")
    parser.add_argument("--port", type=int, required=True, help="where clients connect, on loopback")
    parser.add_argument("--behind", type=int, required=True, help="the port of the Mainstem log for all other requests")
    parser.add_argument("--directory", type=Path, required=True, help="where the files of partitions are made")
    parser.add_argument("--no-sync", action="store_true", help="leave syncing to the page cache")
    arguments = parser.parse_args(argv)
    _Loop(arguments.port, arguments.behind, arguments.directory, syncs=not arguments.no_sync).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
