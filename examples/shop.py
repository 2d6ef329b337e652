"""A shop that has a PostgreSQL database, and beside it a search, a table for reports, and a page that reads its writes.

export SHOP_DSN='host=127.0.0.1 dbname=shop user=shop'
python examples/shop.py prepare         # the shop as it is: two tables with some rows
mainstem run examples/shop.py --cors-origin http://127.0.0.1:8000
python examples/shop.py                 # serves the page (shop.html) at http://127.0.0.1:8000
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg2

import mainstem as ms

DSN = os.environ.get("SHOP_DSN", "host=127.0.0.1 dbname=shop")
PAGE = Path(__file__).with_name("shop.html")
TABLES = """
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, price numeric(8,2) NOT NULL);
CREATE TABLE orders (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, product_id int NOT NULL REFERENCES products,
    customer text NOT NULL, quantity int NOT NULL CHECK (quantity BETWEEN 1 AND 1000),
    state text NOT NULL DEFAULT 'open'
);
INSERT INTO products VALUES (1, 'tea pot', 24.00), (2, 'tea cup', 6.50), (3, 'green tea', 9.90), (4, 'kettle', 39.00);
INSERT INTO orders (product_id, customer, quantity) VALUES (1, 'Ada', 1), (2, 'Ada', 4), (3, 'Grace', 2);
"""
ORDER = """
INSERT INTO orders (product_id, customer, quantity)
SELECT id, %(customer)s, %(quantity)s FROM products WHERE name = %(product)s RETURNING id
"""

app = ms.App("shop")
shop = app.postgres("shop", dsn=DSN, tables=("public.products", "public.orders"))


@app.pipeline(shop["public.orders"], shop["public.products"].table(), into="order-lines", key="id")
def order_lines(orders, products):
    """Each order with its product's name and price. Spark DataFrames in, one DataFrame out."""
    product = products.selectExpr("id AS product_id", "name AS product", "price")
    return orders.join(product, "product_id").selectExpr(
        "id", "customer", "product", "quantity", "CAST(price * quantity AS DECIMAL(12,2)) AS amount", "state"
    )


app.view("find", "order-lines", ms.Search("customer", "product"))
app.sink("order-lines", ms.Postgres(DSN, table="order_lines"))


def prepare(dsn: str = DSN) -> None:
    """Make the shop's tables."""
    with psycopg2.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(TABLES)


def place_order(dsn: str, order: dict[str, Any]) -> dict[str, Any]:
    """Write an order to the shop's database: its id, and the position of the database behind it."""
    connection = psycopg2.connect(dsn)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(ORDER, order)
            found = cursor.fetchone()
            if found is None:
                raise ValueError(f"the shop has no product {order['product']!r}")
        with connection, connection.cursor() as cursor:  # behind the commit
            cursor.execute("SELECT pg_current_wal_lsn()")
            [lsn] = cursor.fetchone()
        return {"id": found[0], "position": f"pg:{lsn}"}
    finally:
        connection.close()


def page_handler(dsn: str) -> Callable[..., BaseHTTPRequestHandler]:
    """The shop's own web server: the page, and a form that writes to the database."""

    class Shop(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            """Send the page."""
            if self.path.partition("?")[0] != "/":
                self.send_error(404)
                return
            self._answer(200, "text/html; charset=utf-8", PAGE.read_bytes())

        def do_POST(self) -> None:  # the library's name
            """Write an order."""
            length = int(self.headers.get("Content-Length", 0))
            if self.path != "/orders" or not 0 < length <= 10_000:
                self.send_error(404)
                return
            try:
                order = json.loads(self.rfile.read(length))
                wanted = {name: order[name] for name in ("customer", "product", "quantity")}
                done = place_order(dsn, wanted)
            except (KeyError, TypeError, ValueError, psycopg2.DataError, psycopg2.IntegrityError) as error:
                self._answer(400, "text/plain; charset=utf-8", str(error).partition("\n")[0].encode())
                return
            self._answer(200, "application/json", json.dumps(done).encode())

        def _answer(self, status: int, media_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing of each request."""

    return Shop


def page_server(port: int, dsn: str = DSN) -> ThreadingHTTPServer:
    """The shop's web server, on loopback; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), page_handler(dsn))


if __name__ == "__main__":
    if sys.argv[1:] == ["prepare"]:
        prepare()
    else:
        with page_server(8000) as server:
            print(f"open http://127.0.0.1:{server.server_port}")
            server.serve_forever()
