"""What Spark's short-lived planners load: nothing that only tasks need."""

from __future__ import annotations

import subprocess
import sys

import pytest

OF_TASKS = "numba confluent_kafka pandas pyarrow.compute pyarrow.json"


@pytest.mark.parametrize("module", ["mainstem.spark.source", "mainstem.spark.sink.sink"])
def test_a_planner_loads_no_decoder_or_encoder(module: str) -> None:
    program = f"import sys, {module}; print([name for name in '{OF_TASKS}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("mainstem.pipelines.deploy", "numba pyarrow"),
        ("mainstem.spark.runner", "numba"),
        ("mainstem.spark.sink.outputs", "numba"),
        ("mainstem.spark.tasks.task_reads", "mainstem.record.native.native_json mainstem.schema.json_rows"),
        ("mainstem.views.host.host", "mainstem.record.native.native_avro mainstem.registry"),
    ],
)
def test_topics_of_json_do_not_load_what_encoded_topics_need(module: str, absent: str) -> None:
    program = f"import sys, {module}; print([name for name in '{absent}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
