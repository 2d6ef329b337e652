"""The private PostgreSQL of tests."""

from __future__ import annotations

import psycopg2
import pytest

from tests.support.postgres import PostgresDatabase


def test_what_was_committed_is_there_after_a_crash(postgres_database: PostgresDatabase) -> None:
    postgres_database.execute("CREATE TABLE t (a int)")
    postgres_database.execute("INSERT INTO t VALUES (1)")
    postgres_database.cluster.restart("immediate")
    assert postgres_database.execute("SELECT a FROM t") == [(1,)]


def test_logical_decoding_is_on(postgres_database: PostgresDatabase) -> None:
    assert postgres_database.execute("SHOW wal_level") == [("logical",)]
    postgres_database.execute("SELECT pg_create_logical_replication_slot('left_behind', 'pgoutput')")


def test_loopback_asks_for_the_password(postgres_database: PostgresDatabase) -> None:
    cluster, name = postgres_database.cluster, postgres_database.name
    cluster.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
    psycopg2.connect(cluster.tcp_dsn(name, name, "right")).close()
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(cluster.tcp_dsn(name, name, "wrong"))
    cluster.execute(f"DROP ROLE {name}")
