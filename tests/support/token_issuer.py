"""An issuer of tokens for tests: its keys, its JWKS document, and the tokens that it signs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "mainstem"


class TokenIssuer:
    """An issuer with one key, by RSA or an elliptic curve."""

    def __init__(self, key_id: str = "k1", algorithm: str = "RS256") -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.key: Any = (
            ec.generate_private_key(ec.SECP256R1())
            if algorithm.startswith("ES")
            else rsa.generate_private_key(public_exponent=65537, key_size=2048)
        )

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as the document lists it."""
        to_jwk: Callable[..., Any] = ECAlgorithm.to_jwk if self.algorithm.startswith("ES") else RSAAlgorithm.to_jwk
        return {**to_jwk(self.key.public_key(), as_dict=True), "kid": self.key_id, "alg": self.algorithm}

    @property
    def document(self) -> bytes:
        """The JWKS document."""
        return json.dumps({"keys": [self.jwk]}).encode()

    def token(self, user: str = "alice", *, valid_s: float = 600, **claims: Any) -> str:
        """A token; a claim of None is left out."""
        now_s = int(time.time())
        whole = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + valid_s, **claims}
        named = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(named, self.key, self.algorithm, headers={"kid": self.key_id})


@contextmanager
def served(answer: Callable[[], tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """An HTTP server on loopback: its address, and what it was asked for: paths; of a POST who asks, and the form."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answer()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.path = f"{self.headers['Authorization']} {form}"
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jwks", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)
