"""A DSN: what libpq gets, and what an error repeats."""

from __future__ import annotations

import psycopg2
import pytest

from mainstem.errors import ConfigError
from mainstem.postgres_dsn import PostgresDsn
from tests.support.postgres import PostgresDatabase


def shown(dsn: str, *names: str, settings: dict[str, object] | None = None) -> list[str]:
    """Settings of a session."""
    connection = PostgresDsn(dsn).connect(settings)
    try:
        with connection.cursor() as cursor:
            values = []
            for name in names:
                cursor.execute(f"SHOW {name}")
                values.append(cursor.fetchone()[0])
            return values
    finally:
        connection.close()


def test_the_settings_of_a_dsn_stay_beside_ours(postgres_database: PostgresDatabase) -> None:
    dsn = f"{postgres_database.dsn} application_name=mine options='-c work_mem=1MB -c timezone=Asia/Tokyo'"
    names = ("application_name", "work_mem", "timezone", "datestyle")
    assert shown(dsn, *names, settings={"timezone": "UTC", "datestyle": "ISO"}) == ["mine", "1MB", "UTC", "ISO, MDY"]
    assert shown(postgres_database.dsn, "application_name") == ["mainstem"]


def test_options_of_the_environment_stay_beside_ours(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=2MB")
    assert shown(postgres_database.dsn, "work_mem", "timezone", settings={"timezone": "UTC"}) == ["2MB", "UTC"]


@pytest.mark.parametrize("text", ["nonsense", "postgresql://me:secret@[host/db", "host=a password='secret"])
def test_what_is_no_dsn_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(
        ConfigError, match="the DSN of the database cannot be read: write it as postgresql://"
    ) as caught:
        PostgresDsn(text)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_dsn_that_libpq_refuses_late_is_refused_without_its_text() -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        PostgresDsn("postgresql://u:secret/x@127.0.0.1/postgres").connect()
    assert "secret" not in str(caught.value)


def test_where_a_database_is_leaves_out_user_and_password() -> None:
    named = PostgresDsn("postgresql://me:secret@db.example:6000/shop")
    assert (named.address, named.database) == ("db.example:6000/shop", "shop")
    assert PostgresDsn("host=/run/pg user=me").database == ""


def test_the_line_of_an_error_has_no_password() -> None:
    named = PostgresDsn("host=h password=secret")
    assert named.line(psycopg2.OperationalError("no secret here\nmore")) == "no *** here"
    assert named.line(psycopg2.OperationalError()) == "OperationalError"
