"""What the tests of verifiable topics share: a log of some hundred batches, served; tampering with its files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.read.tree_reader import TreeReader
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.record.checksum import crc32c
from mainstem.record.header import iter_headers
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.tlog.checkpoints import unverified_checkpoint
from mainstem.tlog.key_file import create_keys
from mainstem.tlog.notes import SigningKey
from mainstem.tlog.tiles import CHECKPOINT, ENTRIES, TILE_WIDTH, count_at, tile_in
from tests.gateway.served import served

TOPIC = "ledger"
Change = Callable[[bytes], bytes]


def make_key(directory: Path) -> SigningKey:
    """The node's key, in the file ``keys`` of the directory, which is made if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    return create_keys(directory / "keys", "log.example.com")


def broker_on(directory: Path) -> EmbeddedBroker:
    """A broker that signs with the keys of ``directory``; its data is there, too."""
    return EmbeddedBroker(directory / "data", settings={"mainstem.signing.keys": str(directory / "keys")})


def write_by_librdkafka(bootstrap: str, count: int, batch_records: int, topic: str = TOPIC) -> None:
    """Write records in batches of so many."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": batch_records}
    producer = Producer({**settings, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"record %d" % number, key=b"%d" % (number % 100))
        if number % 5_000 == 4_999:
            assert producer.flush(60) == 0  # its queue holds 100,000
    assert producer.flush(60) == 0


@contextmanager
def serving(directory: Path) -> Iterator[tuple[Log, str]]:
    """A broker and the gateway: a client, and the prefix of the log over HTTP."""
    with broker_on(directory) as broker, Log(broker.bootstrap, timeout_s=20) as log:
        with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as client:
            yield log, f"{client.base_url}/topics/{TOPIC}/tlog/0/"


def resources(reader: TreeReader) -> dict[str, bytes]:
    """Everything that a log serves, by path."""
    note = reader.checkpoint()
    size, level = unverified_checkpoint(note).size, 0
    found = {CHECKPOINT: note}
    while (count := count_at(level, size)) > 0:
        for number in range(-(-count // TILE_WIDTH)):
            tiles = [tile_in(level, number, size)] + ([tile_in(ENTRIES, number, size)] if level == 0 else [])
            found |= {tile.path: reader.tile(tile) for tile in tiles}
        level += 1
    return found


@contextmanager
def serving_files(files: dict[str, bytes]) -> Iterator[str]:
    """A server that answers with these files: the prefix."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = files.get(self.path.lstrip("/"))
            self.send_response(404 if data is None else 200)
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# A careful forger: batches that are whole, with checksums that hold, and offsets without a gap where that can be had.


def flip_a_byte(log: bytes) -> bytes:
    """Change the last byte of the 40th batch's records."""
    batches = _batches(log)
    batches[40][-1] ^= 1
    return _joined(batches)


def remove_a_batch(log: bytes) -> bytes:
    """Take out the 40th batch; the later ones keep their offsets."""
    batches = _batches(log)
    return _joined(batches[:40] + batches[41:])


def swap_two_batches(log: bytes) -> bytes:
    """Exchange two batches, which get each other's offsets."""
    batches = _batches(log)
    batches[40][:8], batches[41][:8] = batches[40][:8], struct.pack(">q", 0)
    start = struct.unpack(">q", batches[40][:8])[0]
    batches[40], batches[41] = batches[41], batches[40]
    batches[40][:8] = struct.pack(">q", start)
    batches[41][:8] = struct.pack(">q", start + struct.unpack(">i", batches[40][23:27])[0] + 1)
    return _joined(batches)


def _batches(log: bytes) -> list[bytearray]:
    return [bytearray(log[at : at + header.size_bytes]) for at, header in iter_headers(log)]


def _joined(batches: list[bytearray]) -> bytes:
    for batch in batches:
        batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return b"".join(batches)


def tamper(directory: Path, change: Change) -> None:
    """Change the stored records of a stopped node, and remove the indexes that would show it."""
    [path] = (directory / "data" / f"{TOPIC}-0").glob("*.log")
    path.write_bytes(change(path.read_bytes()))
    for sidecar in path.parent.iterdir():
        if sidecar.suffix in (".seal", ".index", ".timeindex", ".txnindex", ".snapshot"):
            sidecar.unlink()
