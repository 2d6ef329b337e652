"""Avro values for tests, written by the specification: an encoder, and a registry that is asked for schemas."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mainstem.record.writer import varint as number


def encode(value: Any, kind: Any) -> bytes:
    """``value`` by a schema as it stands in JSON; of a union, the branch of None, or the last that is not null."""
    if isinstance(kind, list):
        names = [branch if isinstance(branch, str) else branch["type"] for branch in kind]
        chosen = names.index("null") if value is None else max(n for n, name in enumerate(names) if name != "null")
        return number(chosen) + encode(value, kind[chosen])
    name = kind if isinstance(kind, str) else kind["type"]
    if name == "record":
        return b"".join(encode(value[each["name"]], each["type"]) for each in kind["fields"])
    if name == "array":
        return (number(len(value)) + b"".join(encode(each, kind["items"]) for each in value) if value else b"") + b"\0"
    if name == "map":
        pairs = b"".join(encode(key, "string") + encode(each, kind["values"]) for key, each in value.items())
        return (number(len(value)) + pairs if value else b"") + b"\0"
    if name in ("bytes", "string"):
        data = value.encode() if isinstance(value, str) else value
        return number(len(data)) + data
    if name == "enum":
        return number(kind["symbols"].index(value))
    plain = {"null": b"", "fixed": value, "boolean": b"\1" if value else b"\0"}
    if name in ("int", "long"):
        return number(value)
    return struct.pack("<f" if name == "float" else "<d", value) if name in ("float", "double") else plain[name]


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


@contextmanager
def registry(schemas: dict[int, Any], asked: list[str] | None = None) -> Iterator[str]:
    """The address of a registry with these schemas by id; the highest is the latest of any subject."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path + "|" + self.headers.get("Authorization", ""))
            wanted = str(max(schemas)) if self.path.endswith("/versions/latest") else self.path.rpartition("/")[2]
            found = schemas.get(int(wanted))
            body = json.dumps({"schema": json.dumps(found)} if found else {"error_code": 40403}).encode()
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
