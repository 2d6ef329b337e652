"""The pages on databases run as a reader would run them: a capture of PostgreSQL, and tables that follow a topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstem as ms
from mainstem.client.log import Log
from tests.house.pages import ROOT, Block, blocks_of, lines_of_console, not_in_form
from tests.node.page_session import PageSession
from tests.support.eventually import eventually
from tests.support.mariadb import MariaDBTestServer
from tests.support.postgres import PostgresCluster

PASSWORD = "correct horse"
TIMEOUT_S = 60


def of_database(page: str) -> list[Block]:
    """The blocks of a page that need a database."""
    return [block for block in blocks_of(ROOT / page) if block.mark == "node"]


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A cluster of its own with a database ``shop``: the pages make roles and change settings of the server."""
    cluster = PostgresCluster()
    try:
        cluster.create()
        cluster.execute("CREATE DATABASE shop")
        yield cluster
    finally:
        cluster.close()


def run_sql(cluster: PostgresCluster, block: Block) -> None:
    for statement in block.text.replace("…", PASSWORD).split(";"):
        if statement.strip():
            cluster.execute(statement, database="shop")


def test_tables_are_captured_and_a_reader_sees_its_own_commit(cluster: PostgresCluster, tmp_path: Path) -> None:
    grant, connect, app, read, read_again = of_database("docs/reference/postgres.md")
    cluster.execute("CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(12,2))", database="shop")
    cluster.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text, city text)", database="shop")
    cluster.execute("INSERT INTO customers VALUES (1, 'Ada', 'London')", database="shop")
    run_sql(cluster, grant)
    cluster.restart("fast")
    places = {"host=db.example": f"host=127.0.0.1 port={cluster.port}", "PGPASSWORD=… ": ""}
    with PageSession(tmp_path, places) as session:
        session.set("PGPASSWORD", PASSWORD)
        session.line("mainstem serve")
        assert session.run(connect) == connect.shown
        session.stop()
        (tmp_path / "orders.py").write_text(session.here(app.text))
        session.line("mainstem run orders.py")
        views = ms.views(f"http://{session.http}")
        with cluster.connect("shop") as connection, connection.cursor() as cursor:
            names: dict[str, Any] = {"cursor": cursor, "connection": connection, "views": views, "ms": ms}
            exec(read.text.replace("INSERT INTO orders …", "INSERT INTO orders VALUES (17, 9.5)"), names)
            names["views"] = None
            answer = views["orders"].get("17", at_least=ms.Position.parse(f"pg:{names['lsn']}"), timeout=TIMEOUT_S)
        assert [row["total"] for row in answer.rows] == ["9.50"]
        run_sql(cluster, read_again)
        with Log(session.log) as log:
            end = log.end("shop.customers")
            eventually(lambda: len(list(log.read("shop.orders"))) == 2, "the table is read again")
        [journey] = of_database("docs/howto/find-record.md")
        [(line, shown)] = lines_of_console(journey.text)
        assert not_in_form(shown, session.line(line.replace("0:17", "0:0"))) == []
        assert [row["city"] for row in views["find"].search("ada", at_least=end, timeout=TIMEOUT_S).rows] == ["London"]


def test_a_topic_is_a_table_of_two_databases_by_users_with_the_privileges_of_the_page(
    cluster: PostgresCluster, mariadb_server: MariaDBTestServer, tmp_path: Path
) -> None:
    [declared, *_] = blocks_of(ROOT / "docs/reference/sinks.md")
    postgres, mariadb, read = of_database("docs/reference/sinks.md")
    run_sql(cluster, postgres)
    mariadb_server.execute("CREATE DATABASE shop")
    try:
        for statement in mariadb.text.replace("…", PASSWORD).strip().split("\n"):
            mariadb_server.execute(statement.rstrip(";"))
        other = mariadb_server.dsn("shop", "shop", PASSWORD.replace(" ", "%20"))
        program = declared.text.replace("shop@db.example", f"shop@127.0.0.1:{cluster.port}")
        program += f'app.sink(orders, ms.MariaDB({other!r}, table="orders"), name="orders-in-mariadb")\n'
        (tmp_path / "shop.py").write_text(program)
        with PageSession(tmp_path) as session:
            session.set("PGPASSWORD", PASSWORD)
            session.line("mainstem run shop.py")
            with Log(session.log) as log:
                names: dict[str, Any] = {"log": log, "ms": ms}
                exec(read.text.replace("ms.views()", f"ms.views('http://{session.http}')"), names)
            table = ms.views(f"http://{session.http}")["orders-in-mariadb"]
            assert table.get("5", at_least=names["position"], timeout=TIMEOUT_S).rows
            written = [(5, "Ada", "9.50")]
            statement = "SELECT id, customer, CAST(amount AS char(4)) FROM orders"
            assert cluster.execute(statement, database="shop") == written
            assert mariadb_server.execute(statement, "shop") == written
    finally:
        mariadb_server.execute("DROP DATABASE shop")
        mariadb_server.execute("DROP USER IF EXISTS shop")
