"""Witnesses for tests: litewitness, a foreign one, and one in this process, which may also lie."""

from __future__ import annotations

import base64
import os
import shutil
import sqlite3
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from mainstem.client.read.witnesses import Witness, parse_witness
from mainstem.tlog.checkpoints import open_checkpoint
from mainstem.tlog.merkle import verify_consistency
from mainstem.tlog.notes import SigningKey
from tests.support.eventually import eventually
from tests.support.ports import free_port

_MADE = Path(__file__).resolve().parents[2] / ".cache" / "witness" / "litewitness"
_EMPTY = base64.b64encode(sha256(b"").digest()).decode()
NAME = "witness.example/w1"
SIZE = "text/x.tlog.size"
PLAIN = "text/plain"
Answer = tuple[int, str, bytes]


def key_text(key: Ed25519PrivateKey, name: str = NAME) -> str:
    """The public key of a witness as it publishes it."""
    data = b"\x04" + key.public_key().public_bytes_raw()
    key_id = sha256(name.encode() + b"\n" + data).digest()[:4]
    return f"{name}+{key_id.hex()}+{base64.b64encode(data).decode()}"


def cosignature(key: Ed25519PrivateKey, text: bytes, time_s: int = 1_700_000_000, name: str = NAME) -> bytes:
    """A line that cosigns a checkpoint's text."""
    signed = key.sign(f"cosignature/v1\ntime {time_s}\n".encode() + text)
    key_id = bytes.fromhex(key_text(key, name).split("+")[1])
    return f"\u2014 {name} ".encode() + base64.b64encode(key_id + struct.pack(">Q", time_s) + signed) + b"\n"


@contextmanager
def answering(answer: Callable[[bytes], Answer]) -> Iterator[str]:
    """A server on loopback that answers each request by its body; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/add-checkpoint"
            status, kind, body = answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


@contextmanager
def litewitness(directory: Path, origin: str, log_key: str) -> Iterator[tuple[str, str]]:
    """A litewitness process that knows one log: its public key, and its URL. Skips the test where it is not here."""
    found = os.environ.get("MAINSTEM_LITEWITNESS") or shutil.which("litewitness")
    program = found or (str(_MADE) if _MADE.is_file() else None)
    if program is None or shutil.which("ssh-agent") is None:
        pytest.skip("litewitness is not here: make witness compiles it (half a minute, once); it also needs ssh-agent")
    key, socket, port = Ed25519PrivateKey.generate(), directory / "agent", free_port()
    file = directory / "key.pem"
    file.touch(mode=0o600)
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1]
    fingerprint = base64.b64encode(sha256(base64.b64decode(public)).digest()).decode().rstrip("=")
    with sqlite3.connect(directory / "witness.db") as database:
        database.execute(
            "CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL)"
        )
        database.execute(
            "CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))"
        )
        database.execute("INSERT INTO log VALUES (?, 0, ?)", (origin, _EMPTY))
        database.execute("INSERT INTO key VALUES (?, ?)", (origin, log_key))
    database.close()
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        eventually(socket.exists, "the agent's socket")
        environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(file)], env=environment, check=True, timeout=60)
        argv = [program, "-listen", f"127.0.0.1:{port}", "-ssh-agent", str(socket), "-name", NAME]
        argv += ["-db", str(directory / "witness.db"), "-key", f"SHA256:{fingerprint}"]
        witness = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield key_text(key), f"http://127.0.0.1:{port}"
        finally:
            witness.kill()
            witness.wait(20)
    finally:
        agent.kill()
        agent.wait(20)


def now_s() -> int:
    """The time, in seconds since the epoch."""
    return int(time.time())


class SpecWitness:
    """A witness in this process, as the protocol wants it; the proof that it was sent is kept."""

    def __init__(self, key: SigningKey) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.sizes: list[int] = []
        self._log_key = key
        self._size, self._root = 0, b""

    def answer(self, body: bytes) -> Answer:
        """Cosign a checkpoint that continues the last one."""
        head, _, note = body.partition(b"\n\n")
        old, *lines = head.decode().split("\n")
        checkpoint = open_checkpoint(note, [self._log_key.verifier()])
        if int(old.removeprefix("old ")) != self._size:
            return 409, SIZE, f"{self._size}\n".encode()
        if self._size:
            hashes = [base64.b64decode(line) for line in lines]
            verify_consistency(self._size, checkpoint.size, hashes, self._root, checkpoint.root)
        self._size, self._root = checkpoint.size, checkpoint.root
        self.sizes.append(self._size)
        return 200, PLAIN, cosignature(self.key, checkpoint.text(), now_s())

    def at(self, url: str) -> Witness:
        """The witness as a client names it."""
        return parse_witness(f"{key_text(self.key)} {url}")
