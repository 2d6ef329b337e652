"""A session writes local files by system calls alone, and only a JVM that has the class for it is asked for it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scripts.local_files import build

from mainstem.spark.startup import local_files
from mainstem.spark.startup.java import find_java
from tests.support.spark_java import short_lived_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_A_STREAM = """
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 9).load().groupBy("value").count()
stream = rows.writeStream.format("noop").outputMode("complete").option("checkpointLocation", sys.argv[1])
stream.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As before a first session: no JVM, and nothing that says where Spark is."""
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_jvm", None)
    # A variable that was set once is put back, also one that the test itself does not change.
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_jar_is_made_of_its_source(tmp_path: Path) -> None:
    java = find_java()
    if not java.version.startswith("17.") or not (java.home / "bin" / "javac").is_file():
        pytest.skip("another compiler makes other bytes of the same source")
    build(tmp_path / "again.jar")
    assert (tmp_path / "again.jar").read_bytes() == local_files.JAR.read_bytes(), "run make spark-jar, and commit it"


@pytest.mark.parametrize("mode", ["000", "640", "421", "777", "1755"])
def test_permissions_are_set(mode: str, spark: SparkSession, tmp_path: Path) -> None:
    jvm, file_system = spark._jvm, local_file_system(spark)
    assert file_system.getClass().getName() == local_files.CLASS

    path = tmp_path / "a file"
    path.touch()
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission(mode)
    file_system.setPermission(jvm.org.apache.hadoop.fs.Path(str(path)), permission)

    assert stat.S_IMODE(path.stat().st_mode) == int(mode, base=8)


def test_permissions_of_a_missing_file_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    jvm, file_system = spark._jvm, local_file_system(spark)
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission("640")
    with pytest.raises(Exception, match="NoSuchFileException"):
        file_system.setPermission(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "missing")), permission)


@pytest.mark.spark
def test_a_stream_with_state_starts_no_process_for_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "chmod").write_text(f'#!/bin/sh\necho started >> {tmp_path}/started\nexec /bin/chmod "$@"\n')
    (tmp_path / "chmod").chmod(0o755)
    run("from mainstem.spark.session import session", "spark = session('files')", _A_STREAM, directory=tmp_path)
    assert list((tmp_path / "checkpoint" / "commits").iterdir())
    assert not (tmp_path / "started").exists()


@pytest.mark.spark
def test_a_session_in_a_jvm_that_another_session_started_works(tmp_path: Path) -> None:
    run(
        "from pyspark.sql import SparkSession",
        "SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate().stop()",
        "from mainstem.spark.session import session",
        "spark = session('second')",
        "assert spark.conf.get('spark.hadoop.fs.file.impl', None) is None",
        _A_STREAM,
        directory=tmp_path,
        **short_lived_jvm(),
    )
    assert list((tmp_path / "checkpoint" / "commits").iterdir())


def test_the_class_path_that_is_given_stays(no_jvm: pytest.MonkeyPatch) -> None:
    no_jvm.setenv("SPARK_DIST_CLASSPATH", "/given/*")
    for _ in range(2):
        assert local_files.offer("local[2]") == {"spark.hadoop.fs.file.impl": local_files.CLASS}
        assert os.environ["SPARK_DIST_CLASSPATH"] == f"/given/*:{local_files.JAR}"


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn"])
def test_the_jvms_of_a_cluster_are_not_asked_for_it(master: str, no_jvm: pytest.MonkeyPatch) -> None:
    assert local_files.offer(master) == {}


def test_a_jvm_whose_class_path_others_set_is_not_asked_for_it(no_jvm: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_jvm.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert local_files.offer("local[2]")
    (tmp_path / "spark-env.sh").touch()
    assert local_files.offer("local[2]") == {}

    (tmp_path / "spark-env.sh").unlink()
    no_jvm.setenv("PYSPARK_GATEWAY_PORT", "1")  # spark-submit has started it
    assert local_files.offer("local[2]") == {}


def test_a_class_path_without_the_jar_is_not_relied_on(no_jvm: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_jvm.setattr(local_files, "JAR", tmp_path / "missing.jar")
    assert local_files.offer("local[2]") == {}


def test_a_class_archive_is_trained_without_the_jar(no_jvm: pytest.MonkeyPatch) -> None:
    no_jvm.setenv("SPARK_DIST_CLASSPATH", f"/given/*:{local_files.JAR}")
    no_jvm.setattr(local_files.class_archive, "is_training", lambda: True)
    assert local_files.offer("local[2]") == {}
    assert os.environ["SPARK_DIST_CLASSPATH"] == "/given/*"


def test_the_next_session_in_the_jvm_does_not_take_the_setting_over(spark: SparkSession) -> None:
    from pyspark import SparkConf

    assert spark.conf.get("spark.hadoop.fs.file.impl") == local_files.CLASS
    assert SparkConf().get("spark.hadoop.fs.file.impl") is None


def test_a_new_directory_keeps_the_group_id_of_the_one_above(spark: SparkSession, tmp_path: Path) -> None:
    tmp_path.chmod(0o2755)
    fs = spark._jvm.org.apache.hadoop.fs
    local_file_system(spark).mkdirs(fs.Path(str(tmp_path / "new")), fs.permission.FsPermission("750"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o2750


def local_file_system(spark: SparkSession) -> Any:
    configuration = spark._jsc.hadoopConfiguration()
    return spark._jvm.org.apache.hadoop.fs.FileSystem.getLocal(configuration)


def run(*lines: str, directory: Path, **variables: str) -> None:
    """Run a program whose first argument is the directory of a checkpoint."""
    program = "\n".join(["import sys", *lines])
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_DIST_CLASSPATH"}
    environment |= {"PATH": f"{directory}:{os.environ['PATH']}", **variables}
    argv = [sys.executable, "-c", program, str(directory / "checkpoint")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
