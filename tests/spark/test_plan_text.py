"""Plans as text: what changes from run to run is taken out, and nothing else."""

from __future__ import annotations

import pytest

from mainstem.spark.changes.plan_text import normalized

STREAM = (
    "~StreamingRelationV2 org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2@32a2387e, mainstem, "
    "org.apache.spark.sql.execution.datasources.v2.python.PythonTable@29ada9f0, [subscribe=orders,other, "
    "kafka.bootstrap.servers=127.0.0.1:44045, valueSchema=id STRING, item STRING, amount INT, tables=items], "
    "[id#0, item#1, amount#2, _offset#3L], name=<Unassigned>"
)
PLAN = f"""\
~Project [item#1, s#11L, name#7]
+- ~Join LeftOuter, (item#1 = item#6)
   :- ~Filter exists(array(d#9), lambdafunction((lambda x_1#10 > 3), lambda x_1#10, false))
   :  +- ~EventTimeWatermark 28075d0d-87e5-457e-aa9e-b837976b643d, _timestamp#5: timestamp, 10 seconds
   :     +- ~Project [item#1, twice(amount#2)#8 AS d#9]
   :        +- {STREAM}
   +- ResolvedHint (strategy=broadcast)
      +- RelationV2[item#6, name#7] mainstem
"""


def test_what_changes_from_run_to_run_is_taken_out() -> None:
    again = PLAN.replace("#1", "#71").replace("32a2387e", "77aa").replace("28075d0d", "11111111")
    again = again.replace("44045", "9092").replace("x_1", "y_4").replace("name#7]", "name#7]")
    assert normalized(again, ("twice",)) == normalized(PLAN, ("twice",))


def test_a_seed_that_spark_drew_does_not_count_and_one_that_was_given_does() -> None:
    drawn = [
        f"Project [rand({seed}) AS r#1, uuid(Some({seed})) AS u#2]" for seed in (7713905698397905655, -4036204178076)
    ]
    assert normalized(drawn[0]) == normalized(drawn[1])
    assert normalized("Project [rand(7) AS r#1]") != normalized("Project [rand(8) AS r#1]")


def test_a_hint_and_the_name_of_a_function_do_not_count() -> None:
    other = PLAN.replace("   +- ResolvedHint (strategy=broadcast)\n      +-", "   +-").replace("twice(", "double(")
    assert normalized(other, ("double",)) == normalized(PLAN, ("twice",))


def test_a_column_that_the_plan_does_not_use_does_not_count() -> None:
    wider = PLAN.replace("amount INT,", "amount INT, note STRING,").replace("_offset#3L]", "_offset#3L, note#40]")
    assert normalized(wider) == normalized(PLAN)
    assert "amount" in normalized(PLAN).splitlines()[-2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LeftOuter", "Inner"),
        ("> 3", "> 4"),
        ("10 seconds", "20 seconds"),
        ("orders,other", "orders"),
        ("item#1 = item#6", "item#1 = name#7"),
        ("[item#1, s#11L, name#7]", "[s#11L, item#1, name#7]"),
    ],
)
def test_what_is_derived_counts(before: str, after: str) -> None:
    assert normalized(PLAN.replace(before, after)) != normalized(PLAN)


def test_a_schema_in_several_lines_is_part_of_its_source() -> None:
    lines = PLAN.replace("id STRING, item STRING, amount INT", "\n  id STRING,\n\n  item STRING,\n  amount INT\n")
    assert normalized(lines) == normalized(PLAN)
    assert normalized(lines.replace("44045", "9092").replace("item STRING,\n", "item STRING,")) == normalized(PLAN)


def test_text_that_has_been_normalized_stays_as_it_is() -> None:
    once = normalized(PLAN, ("twice",))
    assert normalized(once) == once
    former = "\n".join(line.lstrip(" :+-~") for line in PLAN.splitlines() if "Hint" not in line)
    assert normalized(former, ("twice",)) == once
