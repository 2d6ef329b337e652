"""Names with quotes, dots, spaces and other scripts: of schemas, tables, columns, keys, databases and users."""

from __future__ import annotations

import json
from contextlib import closing
from urllib.parse import quote

import psycopg2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg2.extensions import quote_ident

from mainstem.pipelines.definitions import CapturedTables, CaptureSettings, TableName
from tests.postgres.conftest import TIMEOUT_S, RunningCapture, Shop
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster, PostgresDatabase

NAMES = ['Or"ders', "or.ders", "it's 100%", "a\\b,{}", "Größe 日本", "x" * 63]
PARTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=8)


@given(PARTS, PARTS)
def test_the_name_of_a_table_is_read_as_it_is_written(schema: str, name: str) -> None:
    table = TableName(schema, name)
    assert TableName.parse(str(table)) == table


def test_tables_with_odd_names_are_found_by_the_names_that_are_listed() -> None:
    tables = CapturedTables(CaptureSettings.of("s", "", ['"a.b"."c d"', 'x."y""z"', "orders"]), "app.py:1")
    assert list(tables) == ['"a.b".c d', 'x."y""z"', "public.orders"]
    assert [topic.name for topic in tables.values()] == ["s.a_b.c_d", "s.x.y_z", "s.orders"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_captured_whatever_its_name(shop: Shop, postgres_database: PostgresDatabase, name: str) -> None:
    connection = postgres_database.connect()
    quoted, column = quote_ident(name, connection), quote_ident(f"v{name[:40]}", connection)
    connection.close()
    table = f"{quoted}.{quoted}"
    shop.execute(f"CREATE SCHEMA {quoted}")
    shop.execute(f"CREATE TABLE {table} ({quoted} text PRIMARY KEY, {column} text)")
    shop.execute(f"INSERT INTO {table} SELECT n::text, 'x' FROM generate_series(1, 600) n")  # two chunks
    settings = CaptureSettings.of(shop.name, postgres_database.dsn, [table])
    with RunningCapture(shop.log, settings) as capture:
        capture.caught_up(postgres_database)
        shop.execute(f"UPDATE {table} SET {column} = 'y' WHERE {quoted} = '600'")
        capture.caught_up(postgres_database)
    records = list(shop.log.read(settings.topic_of(settings.tables[0])))
    assert len(records) == 601
    assert (records[-1].key, json.loads(records[-1].value or b"")) == (b"600", {name: "600", f"v{name[:40]}": "y"})


def test_a_database_and_a_user_with_odd_names(shop: Shop, postgres_cluster: PostgresCluster) -> None:
    name, password = 'my "shop\'s" %', "pass'wörd %\\"
    connection = postgres_cluster.connect()
    quoted = quote_ident(name, connection)
    connection.close()
    postgres_cluster.execute(f"CREATE ROLE {quoted.replace('%', '%%')} LOGIN SUPERUSER PASSWORD %s", (password,))
    postgres_cluster.execute(f"CREATE DATABASE {quoted} OWNER {quoted}")
    user = quote(name, safe="")
    dsn = f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{postgres_cluster.port}/{user}"
    try:
        with closing(psycopg2.connect(dsn)) as database:
            database.autocommit = True
            cursor = database.cursor()
            cursor.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1)")
            with RunningCapture(shop.log, CaptureSettings.of(shop.name, dsn, ["orders"])) as capture:
                eventually(lambda: capture.covers(1), "the snapshot is done", TIMEOUT_S)
            assert shop.records() == [("1", {"id": 1})]
            postgres_cluster.drop_slot(capture.settings.slot)
    finally:
        postgres_cluster.execute(f"DROP DATABASE {quoted} WITH (FORCE)")
        postgres_cluster.execute(f"DROP ROLE {quoted}")
