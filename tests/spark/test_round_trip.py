"""Columns of every type, written by a pipeline, are read back as they were: by a following pipeline and by a view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import SQL
from mainstem.spark.options.columns import PLACE_COLUMNS
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import SqlQuery
from tests.spark.flights_app import Flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
# name → an expression of its value in the row n; n = 0 gives nulls throughout
EXPRESSIONS = {
    "price": "CAST(n * 1234.56 AS DECIMAL(20,4))",
    "whole": "CAST(n AS BIGINT) * 9007199254740993",
    "small": "CAST(n AS TINYINT)",
    "ratio": "n / 3.0D",
    "single": "CAST(n / 3.0D AS FLOAT)",
    "is_odd": "n % 2 = 1",
    "day": "DATE'2024-02-29' + n",
    "at": "TIMESTAMP'2024-02-29 23:59:59.123456' + make_interval(0, 0, 0, n)",
    "local": "TIMESTAMP_NTZ'2024-02-29 23:59:59.5'",
    "raw": "CAST(concat('a\\u0000é', n) AS BINARY)",
    "text": "concat('quote \" back \\\\ é \\n ', n)",
    "numbers": "array(n, null, 2)",
    "amounts": "array(CAST(n AS DECIMAL(10,2)))",
    "days": "array(DATE'2024-02-29')",
    "place": "named_struct('name', concat('x', n), 'at', TIMESTAMP'2024-02-29 12:00:00', 'parts', array(struct(n)))",
    "by_name": "map('a', n, 'b', null)",
    "nothing": "CAST(null AS ARRAY<STRING>)",
}


def columns() -> list[str]:
    return [f"CASE WHEN n > 0 THEN {value} END AS {name}" for name, value in EXPRESSIONS.items()]


def read(world: Flights, spark: SparkSession, topic: str) -> Any:
    reader = spark.read.format("mainstem").option("kafka.bootstrap.servers", world.bootstrap)
    return reader.option("subscribe", topic).option("valueSchema", "registered").load().drop(*PLACE_COLUMNS)


def test_every_type_comes_back_as_it_was(world: Flights, spark: SparkSession, tmp_path: Path) -> None:
    numbers, typed, again = (f"{world.prefix}.{word}" for word in ("numbers", "typed", "again"))
    source = world.app.topic(numbers, "n INT")
    world.app.pipeline(source, into=typed, name=typed)(lambda numbers: numbers.selectExpr("n", *columns()))
    world.app.pipeline(typed, into=again, key="n", name=again)(lambda typed: typed)
    view = world.app.view("seen", again, SQL())
    deploy(world.app, world.log)
    position = world.log.append_many(numbers, [(None, {"n": n}) for n in range(3)])
    world.run_once()

    expected = spark.range(3).selectExpr("CAST(id AS INT) AS n").selectExpr("n", *columns())
    for topic in (typed, again):
        found = read(world, spark, topic)
        assert dict(found.dtypes) == dict(expected.dtypes)
        assert sorted(found.collect()) == sorted(expected.collect())
    with ViewHost([view], world.bootstrap, tmp_path / "views", pipelines=world.app.pipelines.values()) as host:
        text = "CAST(price AS VARCHAR) AS price, CAST(day AS VARCHAR) AS day, place->>'name' AS name"
        asked = SqlQuery(f'SELECT {text}, epoch_us("at") AS at_us FROM seen WHERE n = 1')
        answer = host.query("seen", asked, ReadOptions(at_least=position, timeout_s=60))
    assert answer.rows == [{"price": "1234.5600", "day": "2024-03-01", "name": "x1", "at_us": 1_709_337_599_123_456}]


TEXTS = {
    "took": ("make_dt_interval(0, 0, 1)", "INTERVAL '0 00:01:00' DAY TO SECOND"),
    "age": ("make_ym_interval(1, 2)", "INTERVAL '1-2' YEAR TO MONTH"),
    "any": ("parse_json('{\"a\": [1.50]}')", '{"a":[1.5]}'),
    "waits": ("array(make_dt_interval(0, 0, 1), null)", ["INTERVAL '0 00:01:00' DAY TO SECOND", None]),
    "by_name": ("map('a', make_ym_interval(1, 2))", {"a": "INTERVAL '1-2' YEAR TO MONTH"}),
    "parts": (
        "named_struct('n', 1, 'any', parse_json('[true]'), 'age', make_ym_interval(1, 2))",
        (1, "[true]", "INTERVAL '1-2' YEAR TO MONTH"),
    ),
}
"""name → an expression of a type that no column has, and the text that a column has of it"""


def test_types_that_no_column_has_come_back_as_text(world: Flights, spark: SparkSession) -> None:
    numbers, texts, again = (f"{world.prefix}.{word}" for word in ("numbers", "texts", "again"))
    source = world.app.topic(numbers, "n INT")
    derived = [f"{value} AS {name}" for name, (value, _) in TEXTS.items()]
    world.app.pipeline(source, into=texts, name=texts)(lambda numbers: numbers.selectExpr(*derived))
    world.app.pipeline(texts, into=again, name=again)(lambda texts: texts)
    deploy(world.app, world.log)
    world.log.append(numbers, {"n": 1})
    world.run_once()
    for topic in (texts, again):
        assert read(world, spark, topic).collect() == [tuple(value for _, value in TEXTS.values())]
