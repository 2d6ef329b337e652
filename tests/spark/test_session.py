"""What a session brings along, and what its user may change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.errors import ConfigError
from mainstem.spark.session import default_settings, register, session
from mainstem.spark.startup import class_archive
from mainstem.spark.startup.java import Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_session_knows_the_format(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"option kafka\.bootstrap\.servers is missing"):
        spark.read.format("mainstem").load()


@pytest.mark.spark
def test_given_settings_win(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.memory") == "1g"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_cluster_is_not_given_one_machines_settings() -> None:
    settings = default_settings("spark://host:7077")
    assert "spark.driver.host" not in settings
    assert "TieredStopAtLevel" not in settings["spark.driver.extraJavaOptions"]


def test_only_the_session_of_pipelines_does_without_the_optimizing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for is_for_pipelines in (True, False):
        options = default_settings("local[2]", is_for_pipelines=is_for_pipelines)["spark.driver.extraJavaOptions"]
        assert ("-XX:TieredStopAtLevel=1" in options) == is_for_pipelines


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a session for queries says where the machine's name has no address: its compilers, and a sum."""
    hosts = tmp_path_factory.mktemp("nameless") / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    left_out = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_SUBMIT_OPTS")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["JAVA_TOOL_OPTIONS"] = f"-Djdk.net.hosts.file={hosts}"  # Java knows no other names then
    done = subprocess.run(
        [sys.executable, "-c", _QUERY], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


_QUERY = """
import socket
socket.gethostname = lambda: "nameless.invalid"
from mainstem.spark.session import session
spark = session("queries")
java = spark._jvm.java.lang
bean = java.management.ManagementFactory.getPlatformMXBean(
    java.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
)
print(bean.getVMOption("TieredStopAtLevel").getValue(), spark.range(1000).selectExpr("sum(id)").first()[0])
"""


@pytest.mark.spark
def test_a_session_for_queries_runs_with_the_optimizing_compiler(queries: list[str]) -> None:
    assert queries[0] == "4"


@pytest.mark.spark
def test_spark_starts_where_the_machines_name_has_no_address(queries: list[str]) -> None:
    assert queries[1:] == ["499500"]


def test_a_class_archive_is_used_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = Java(Path("/java"), "17.0.1")
    assert class_archive.java_options(java) == []
    path = class_archive.archive_path(java)
    path.parent.mkdir()
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in class_archive.java_options(java)


def test_a_new_class_archive_takes_the_place_of_those_not_used_lately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(class_archive, "_train", lambda _, made: made.write_bytes(b"an archive"))
    cache = tmp_path / "mainstem"
    (cache / "mainstem-archive-killed").mkdir(parents=True)
    os.utime(cache / "mainstem-archive-killed", (0, 0))
    (cache / "mainstem-archive-running").mkdir()
    javas = [Java(Path(f"/java{number}"), "17.0.1") for number in range(6)]
    for age, java in enumerate(reversed(javas[:5])):
        class_archive.archive_path(java).touch()
        os.utime(class_archive.archive_path(java), (1000 - age, 1000 - age))
    assert class_archive.java_options(javas[0])  # the oldest one is used now

    monkeypatch.setattr(class_archive, "find_java", lambda: javas[5])
    class_archive.build()

    kept = {class_archive.archive_path(javas[number]) for number in (0, 3, 4, 5)}
    assert set(cache.iterdir()) == kept | {cache / "mainstem-archive-running"}


def test_another_java_has_another_class_archive() -> None:
    paths = {class_archive.archive_path(Java(Path("/java"), version)) for version in ("17.0.1", "21.0.1")}
    assert len(paths) == 2


def test_a_cluster_on_loopback_finds_its_driver_there() -> None:
    assert default_settings("spark://127.0.0.1:7077")["spark.driver.host"] == "127.0.0.1"


@pytest.mark.spark
def test_a_session_that_runs_already_is_the_session(spark: SparkSession) -> None:
    assert session("again", settings={"spark.sql.shuffle.partitions": "3"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"


@pytest.mark.spark
def test_a_session_that_runs_already_keeps_its_master_and_what_is_fixed(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"runs in this process already, at local\[.*one at local\[7\]"):
        session("again", master="local[7]")
    with pytest.raises(ConfigError, match=r"spark\.driver\.memory can only be set before it starts"):
        session("again", settings={"spark.driver.memory": "7g"})


@pytest.mark.spark
def test_a_session_that_runs_without_us_forks_this_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert register(spark) is spark
    forking = spark.sparkContext.pythonExec
    assert forking != sys.executable
    done = subprocess.run([forking, "-m", "this"], capture_output=True, text=True, timeout=60, check=True)
    assert "Beautiful" in done.stdout

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark.sparkContext.pythonExec = sys.executable
    session("again")
    assert spark.sparkContext.pythonExec == forking


@pytest.mark.spark
def test_another_python_of_a_running_session_is_kept(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o700)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    try:
        register(spark)
        assert spark.sparkContext.pythonExec == str(other)
    finally:
        monkeypatch.undo()
        register(spark)  # the session is shared: the format's workers must not need this test's file


@pytest.mark.spark
def test_the_format_needs_no_registration(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"option kafka\.bootstrap\.servers is missing"):
        spark.newSession().read.format("mainstem").load()
