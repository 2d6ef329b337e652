"""Google Cloud Storage's conditional writes over its XML API, in memory.

No server of Google's is to be had: its own testbench is not on PyPI, and lacks headers that obstore needs. This one has
the one rule that backups depend on: ``x-goog-if-generation-match`` names a generation, 0 an object that is not there.
https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class GenerationServer(ThreadingHTTPServer):
    """Serves while it is entered, at ``url``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.objects: dict[str, tuple[int, bytes]] = {}
        self.generations = 1_700_000_000_000_000
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> GenerationServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join(30)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: GenerationServer

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        generation, _ = self.server.objects.get(self.path, (0, b""))
        condition = self.headers.get("x-goog-if-generation-match")
        if condition is not None and int(condition) != generation:
            self._answer(412)
            return
        self.server.generations += 1
        self.server.objects[self.path] = (self.server.generations, data)
        self._answer(200, self.server.generations)

    def do_GET(self) -> None:
        generation, data = self.server.objects.get(self.path, (0, b""))
        self._answer(200 if generation else 404, generation, data)

    def do_DELETE(self) -> None:
        self._answer(204 if self.server.objects.pop(self.path, None) else 404)

    def _answer(self, status: int, generation: int = 0, data: bytes = b"") -> None:
        self.send_response(status)
        if generation:
            self.send_header("x-goog-generation", str(generation))
            self.send_header("ETag", f'"{hash(data):x}"')
            self.send_header("Last-Modified", self.date_time_string())
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Write no line for each request."""
