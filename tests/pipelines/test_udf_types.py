"""Types' texts as Spark's JSON, without Spark."""

from __future__ import annotations

import pytest

from mainstem.errors import DefinitionError
from mainstem.pipelines.udf_types import spark_json

pyspark_types = pytest.importorskip("pyspark.sql.types")


@pytest.mark.parametrize(
    "text",
    [
        "string", "int", "bigint", "smallint", "tinyint", "double", "float", "boolean", "date", "timestamp",
        "timestamp_ntz", "binary", "decimal(10,2)", "array<int>", "map<string,array<double>>",
        "struct<a:int,b:array<struct<c:string>>>", "map<string,struct<x:decimal(5,1),y:int>>",
    ],
)  # fmt: skip
def test_the_text_means_what_spark_takes_it_for(text: str) -> None:
    parsed = pyspark_types._parse_datatype_json_value(spark_json(text))
    assert parsed.simpleString() == text


def test_columns_are_a_struct() -> None:
    parsed = pyspark_types._parse_datatype_json_value(spark_json("a INT, `b c` STRING NOT NULL"))
    assert parsed.simpleString() == "struct<a:int,b c:string>"
    assert not parsed["b c"].nullable


@pytest.mark.parametrize("text", ["strng", "map<int>", ""])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        spark_json(text)
