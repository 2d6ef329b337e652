"""Checks and completes the environment variables that Spark reads when it starts; each error is one line.

Spark itself would report most of these errors in a JVM's stack trace, or only when the first task runs.

* ``JAVA_HOME``: a Java that fits (``java.find_java``).
* ``SPARK_HOME``: PySpark would take other classes than its own from there, so they must be of its version.
* ``PYSPARK_PYTHON``: the Python of the workers, of the driver's version and with Mainstem installed. On one machine it
  is this process's own by default, by way of the fork server; on a cluster it is at the path of this one, to be so on
  all machines, and only what runs beside the driver is forked.
* ``SPARK_LOCAL_IP``: loopback, on one machine whose own name has no address, as in some containers or on a laptop that
  has changed its network. Spark looks the name up and would not start. Elsewhere it stays unset: the JVM keeps it, and
  a later session of this process may be at a cluster.
* The sockets between the JVM and Python on one machine (``worker_sockets``).
* The master: an address that can be reached.

Not thread-safe; Spark starts once in a process.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from mainstem.addresses import parse_address
from mainstem.errors import ConfigError, MachineError, MissingDependencyError, UnavailableError
from mainstem.spark.startup.fork_server import ForkServer
from mainstem.spark.startup.java import find_java

PYSPARK_MIN = (4, 0)
_INSTALL = "pip install 'mainstem[spark]'"
_ASK_TIMEOUT_S = 60
_CONNECT_TIMEOUT_S = 5.0
_MASTER = re.compile(r"local(-cluster)?(\[.*\])?|yarn|k8s://.+|spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*")
_ASK = """
import importlib.util, sys
print("%d.%d" % sys.version_info[:2])
print(*[name for name in ("pyspark", "mainstem") if importlib.util.find_spec(name) is None])
"""
_SOCKET_DIRECTORY_BYTES_MAX = 60
"""A socket's path has 108 bytes at most (104 on macOS); Spark's names take 42."""
_FORK_SERVERS: dict[str, ForkServer] = {}
"""By the command that stands in for Python: what was started in this process."""


def require_pyspark() -> None:
    """Raises MissingDependencyError when PySpark is not installed, or is too old."""
    try:
        import pyspark
    except ImportError as error:
        raise MissingDependencyError(f"Spark is not installed; run: {_INSTALL}") from error
    if tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2]) < PYSPARK_MIN:
        least = ".".join(map(str, PYSPARK_MIN))
        raise MissingDependencyError(
            f"PySpark {pyspark.__version__} is too old: the format mainstem needs {least}; run: {_INSTALL}"
        )


def is_local(master: str) -> bool:
    """Whether drivers and workers are on this machine."""
    return master.startswith("local")


def prepare(master: str) -> None:
    """Make the environment fit for a session at ``master``.

    Raises MissingDependencyError (Java, or the workers' Python), MachineError, ConfigError and UnavailableError (the
    master).
    """
    check_master(master)
    if "SPARK_REMOTE" in os.environ:
        raise ConfigError(f"SPARK_REMOTE is {os.environ['SPARK_REMOTE']}; unset it to have a session at {master}")
    os.environ["JAVA_HOME"] = str(find_java().home)
    _check_spark_home()
    os.environ.setdefault("PYTHONHASHSEED", "0")
    if is_local(master) and not {"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"} & os.environ.keys() and not _has_address():
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    given = os.environ.get("PYSPARK_PYTHON")
    if given in _FORK_SERVERS:
        given = None  # by an earlier session, which may have been at another master
    if given is None or (is_local(master) and _is_this_python(given)):
        os.environ["PYSPARK_PYTHON"] = _python_for_here() if is_local(master) else _python_for_all_machines()
    elif is_local(master):
        check_workers_python(given)


def _has_address() -> bool:
    """Whether this machine's own name has an address."""
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


def worker_sockets(master: str) -> dict[str, str]:
    """Settings by which the JVM and Python exchange rows over Unix sockets, in a directory of this user alone.

    Spark's other choice is TCP on loopback, where the small messages of a short micro-batch wait for acknowledgements.
    Empty where the workers are on other machines, or the system cannot have such a socket.
    """
    if not is_local(master) or sys.platform == "win32":
        return {}
    directory = tempfile.mkdtemp(prefix="mainstem-sockets-")  # of mode 0700: Spark checks no secret on these sockets
    if len(os.fsencode(directory)) > _SOCKET_DIRECTORY_BYTES_MAX:
        Path(directory).rmdir()
        return {}
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": directory}


def local_python(command: str) -> str:
    """The command for the Python processes of this machine: a fork server's for this Python; another is kept.

    Raises MissingDependencyError for a Python that cannot run this machine's workers.
    """
    if _is_this_python(command):
        return _python_for_here()
    check_workers_python(command)
    return command


def check_workers_python(command: str) -> None:
    """Raises MissingDependencyError when ``command`` is no Python that can run this machine's workers."""
    if command in _FORK_SERVERS or _is_this_python(command):
        return
    try:
        asked = subprocess.run(
            [command, "-c", _ASK], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingDependencyError(f"PYSPARK_PYTHON is {command}, which does not run: {error}") from error
    version, missing = asked.stdout.split("\n")[:2]
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != ours:
        raise MissingDependencyError(
            f"PYSPARK_PYTHON is {command}, which is Python {version}, and this is Python {ours}; Spark's workers need "
            f"the same: unset PYSPARK_PYTHON, or set it to {sys.executable}"
        )
    if missing:
        raise MissingDependencyError(
            f"PYSPARK_PYTHON is {command}, which has no {' and no '.join(missing.split())}; unset it, set it to "
            f"{sys.executable}, or run: {command} -m {_INSTALL}"
        )


def check_master(master: str) -> None:
    """Raises ConfigError for an invalid master URL, UnavailableError when no process listens there."""
    if master.startswith("sc://"):
        raise ConfigError(
            f"{master} is a Spark Connect server, not a master: make the session with "
            "SparkSession.builder.remote(…), and register mainstem.spark.source.MainstemDataSource in it"
        )
    if _MASTER.fullmatch(master) is None:
        raise ConfigError(f"invalid Spark master {master!r}: use local[N], spark://HOST:PORT, yarn and k8s://…")
    if not master.startswith("spark://"):
        return
    failures = []
    for address in master.removeprefix("spark://").split(","):
        try:
            socket.create_connection(parse_address(address), timeout=_CONNECT_TIMEOUT_S).close()
            return
        except (OSError, OverflowError) as error:
            failures.append(f"{address}: {error}")
    raise UnavailableError(f"Spark's master cannot be reached ({'; '.join(failures)}); start it, or check {master}")


def _python_for_here() -> str:
    """The command of a fork server; this Python itself where there cannot be one."""
    if sys.platform == "win32":
        return sys.executable
    for command, running in _FORK_SERVERS.items():
        if running.is_running and command == str(running.python):
            return command
    server = _fork_server()
    _FORK_SERVERS[str(server.python)] = server
    return str(server.python)


def _python_for_all_machines() -> str:
    """``mainstem-python`` beside this Python, for which a fork server is started here; or else this Python."""
    stand_in = Path(sys.executable).with_name("mainstem-python")
    if not stand_in.is_file():
        return sys.executable
    command = str(stand_in)
    if command not in _FORK_SERVERS or not _FORK_SERVERS[command].is_running:
        _FORK_SERVERS[command] = _fork_server()
    os.environ.update(_FORK_SERVERS[command].variables)
    return command


def _fork_server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.stop)
    return server


def _is_this_python(command: str) -> bool:
    # The paths as they are, not what they link to: that is the same for each virtual environment of one Python.
    found = shutil.which(command)
    return found is not None and Path(found).absolute() == Path(sys.executable).absolute()


def _check_spark_home() -> None:
    import pyspark

    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    found = [re.search(r"spark-core_[\d.]+-(.+)\.jar$", path.name) for path in Path(home, "jars").glob("spark-core_*")]
    version = next((match[1] for match in found if match), None)
    if version is None:
        raise MachineError(f"SPARK_HOME is {home}, but there is no Spark in it; unset it to use the one of PySpark")
    if version != pyspark.__version__:
        raise MachineError(
            f"SPARK_HOME is {home}, a Spark {version}, and PySpark is {pyspark.__version__}; unset SPARK_HOME, or run: "
            f"pip install pyspark=={version}"
        )
