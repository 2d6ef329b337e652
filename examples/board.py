"""A board of notes that everybody who looks at it sees in step: one topic, one view, one page (board.html).

mainstem run examples/board.py --cors-origin http://127.0.0.1:8000
python examples/board.py                # serves the page at http://127.0.0.1:8000: open it twice
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import mainstem as ms

app = ms.App("board")
notes = app.topic(
    "notes", schema="id STRING NOT NULL, text STRING, x DOUBLE, y DOUBLE, color STRING", key="id", compacted=True
)
app.view("notes", notes, ms.KeyValue())

PAGE = Path(__file__).with_name("board.html")


class Page(BaseHTTPRequestHandler):
    """Serves the page, and nothing else."""

    def do_GET(self) -> None:  # the library's name
        """Send it."""
        if self.path.partition("?")[0] != "/":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE.read_bytes())

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


def page_server(port: int) -> ThreadingHTTPServer:
    """The page, on loopback; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), Page)


if __name__ == "__main__":
    with page_server(int(sys.argv[1]) if len(sys.argv) > 1 else 8000) as server:
        print(f"open http://127.0.0.1:{server.server_port} in two browsers")
        server.serve_forever()
