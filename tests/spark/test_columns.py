"""The DDL of what the source gives."""

from __future__ import annotations

from mainstem.spark.options.columns import record_ddl, typed_ddl


def test_a_record_has_the_columns_of_the_kafka_connector() -> None:
    names = [part.split()[0] for part in record_ddl(["key", "value", "headers"]).split(", ") if " " in part]
    assert names[:3] == ["key", "value", "headers"]


def test_typed_columns_are_nullable_and_know_their_place() -> None:
    ddl = typed_ddl("carrier STRING NOT NULL, `mean delay` DOUBLE", with_place=True)
    assert ddl == "`carrier` STRING, `mean delay` DOUBLE, _offset BIGINT, _partition INT, _timestamp TIMESTAMP"


def test_a_table_has_its_own_columns_alone() -> None:
    assert typed_ddl("carrier STRING", with_place=False) == "`carrier` STRING"
