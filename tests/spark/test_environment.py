"""What is wrong with the environment is said in one line, before Spark starts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mainstem.errors import ConfigError, MachineError, MissingDependencyError, UnavailableError
from mainstem.spark.startup import environment
from mainstem.spark.startup.fork_server import ForkServer


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment with none of Spark's variables; it is put back as it was."""
    for name in ("PYSPARK_PYTHON", "SPARK_HOME", "SPARK_REMOTE", "PYTHONHASHSEED"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def python_that_says(directory: Path, *lines: str) -> str:
    command = directory / "python"
    command.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    command.chmod(0o755)
    return str(command)


def test_workers_with_another_python_are_refused(tmp_path: Path, variables: pytest.MonkeyPatch) -> None:
    variables.setenv("PYSPARK_PYTHON", python_that_says(tmp_path, "3.8", ""))
    with pytest.raises(MissingDependencyError, match=r"is Python 3\.8, and this is Python .* unset PYSPARK_PYTHON"):
        environment.prepare("local[1]")


def test_workers_without_the_package_are_refused(tmp_path: Path, variables: pytest.MonkeyPatch) -> None:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    variables.setenv("PYSPARK_PYTHON", python_that_says(tmp_path, ours, "pyspark mainstem"))
    with pytest.raises(MissingDependencyError, match="has no pyspark and no mainstem; unset it"):
        environment.prepare("local[1]")


@pytest.mark.parametrize("command", ["/nonexistent/python", "false"])
def test_a_python_that_does_not_run_is_named(command: str, variables: pytest.MonkeyPatch) -> None:
    variables.setenv("PYSPARK_PYTHON", command)
    with pytest.raises(MissingDependencyError, match=f"PYSPARK_PYTHON is {command}, which does not run"):
        environment.prepare("local[1]")


def test_this_very_python_passes(variables: pytest.MonkeyPatch) -> None:
    environment.check_workers_python(sys.executable)


def test_a_python_is_judged_by_what_it_says(tmp_path: Path) -> None:
    link = tmp_path / "python-of-another-name"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    environment.check_workers_python(str(link))


def test_a_cluster_runs_the_python_of_the_driver_unless_told(variables: pytest.MonkeyPatch) -> None:
    beside = Path(sys.executable).with_name("mainstem-python")
    with socket.create_server(("127.0.0.1", 0)) as master:
        environment.prepare(f"spark://127.0.0.1:{master.getsockname()[1]}")
        assert os.environ["PYSPARK_PYTHON"] == (str(beside) if beside.is_file() else sys.executable)
        variables.setenv("PYSPARK_PYTHON", "/opt/env/bin/python")
        environment.prepare(f"spark://127.0.0.1:{master.getsockname()[1]}")
        assert os.environ["PYSPARK_PYTHON"] == "/opt/env/bin/python"


def test_the_stand_in_is_forked_where_a_server_listens_and_python_elsewhere(tmp_path: Path) -> None:
    stand_in = tmp_path / "mainstem-python"
    shutil.copy(Path(environment.__file__).parents[1] / "mainstem-python", stand_in)
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    argv = [str(stand_in), "-m", "platform"]
    server = ForkServer()
    try:
        forked = subprocess.run(argv, env={**os.environ, **server.variables}, capture_output=True, timeout=120)
    finally:
        server.stop()
    plain = subprocess.run(argv, env={**os.environ, **server.variables}, capture_output=True, timeout=120)
    assert (forked.returncode, plain.returncode) == (0, 0)
    assert forked.stdout == plain.stdout != b""


def test_a_master_that_nobody_answers_for_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(UnavailableError, match=rf"master cannot be reached \(127\.0\.0\.1:{port}: .*start it"):
        environment.check_master(f"spark://127.0.0.1:{port}")


@pytest.mark.parametrize("master", ["host:7077", "spark://host", "mesos://host:5050", ""])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match=r"invalid Spark master .*: use local\[N\], spark://HOST:PORT"):
        environment.check_master(master)


def test_a_connect_server_is_no_master(variables: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"Spark Connect server, not a master: .*SparkSession\.builder\.remote"):
        environment.check_master("sc://localhost")
    variables.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(ConfigError, match="SPARK_REMOTE is sc://localhost; unset it"):
        environment.prepare("local[1]")


@pytest.mark.parametrize(
    ("jar", "said"),
    [("spark-core_2.13-3.5.1.jar", r"a Spark 3\.5\.1, and PySpark is"), ("other.jar", "there is no Spark in it")],
)
def test_a_foreign_spark_home_is_named(jar: str, said: str, tmp_path: Path, variables: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / jar).touch()
    variables.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(MachineError, match=said):
        environment.prepare("local[1]")


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.3")
    with pytest.raises(MissingDependencyError, match=r"PySpark 3\.5\.3 is too old: the format mainstem needs 4\.0"):
        environment.require_pyspark()


def test_workers_exchange_rows_over_sockets_that_only_this_user_reaches() -> None:
    settings = environment.worker_sockets("local[2]")
    directory = Path(settings["spark.python.unix.domain.socket.dir"])
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert environment.worker_sockets("spark://127.0.0.1:7077") == {}


def test_where_a_sockets_path_would_be_too_long_workers_use_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert environment.worker_sockets("local[2]") == {}
    assert list(deep.iterdir()) == []
