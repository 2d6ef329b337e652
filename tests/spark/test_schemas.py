"""Spark's types and a topic's."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mainstem.errors import SchemaError
from mainstem.spark.schemas import topic_schema


def registered(data_type: DataType) -> str:
    return topic_schema(StructType([StructField("x", data_type)])).columns[0].type


@pytest.mark.parametrize(
    ("data_type", "name"),
    [
        (StringType(), "STRING"),
        (ByteType(), "TINYINT"),
        (IntegerType(), "INT"),
        (LongType(), "BIGINT"),
        (DecimalType(12, 3), "DECIMAL(12,3)"),
        (DateType(), "DATE"),
        (TimestampType(), "TIMESTAMP"),
        (TimestampNTZType(), "TIMESTAMP_NTZ"),
        (ArrayType(LongType()), "ARRAY<bigint>"),
        (MapType(StringType(), LongType()), "MAP<string,bigint>"),
        (StructType([StructField("Name", StringType())]), "STRUCT<Name:string>"),
    ],
)
def test_a_type_has_its_name_in_the_registry(data_type: DataType, name: str) -> None:
    assert registered(data_type) == name


def test_a_type_without_a_json_form_is_refused() -> None:
    with pytest.raises(SchemaError, match="column 'x' has the type interval"):
        registered(CalendarIntervalType())
