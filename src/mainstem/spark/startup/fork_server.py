"""A server process that imports everything Spark's Python processes need, and forks them in milliseconds.

On one machine Spark starts some ten Python processes for a handful of queries (planners, a runner for each source, the
workers). Each would import pyspark, Arrow, numpy and the native decoder by itself. That takes a second of processor
time each, and again after a minute of idleness, when Spark ends its workers. ``ForkServer`` starts one process that
imports them once, while the JVM starts; ``python`` is the command that Spark runs in place of Python (``fork_client``).

A fork takes some 20 ms, since it copies the page tables of all imports. So the server forks one spare process ahead, a
little after it used the last, which waits for its request: a stream's micro-batch starts a process or two.

A forked process gets its own standard streams, environment, signal handlers and numpy random state. The garbage
collector is frozen first, so that a worker's collections skip the imported modules. The server has one thread. It ends
when its standard input closes, and kills the processes that it forked. Only for Linux and macOS. With a cluster it
serves only the driver's machine.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_CLIENT = Path(__file__).with_name("fork_client.py")
_CODE_BYTES = 4
_ASK_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 10.0
_FAILED = 70
_KILLED = 128 + signal.SIGKILL  # as shells give it
_SPARE_AFTER_S = 0.02
PRELOADED = (
    "numpy",
    "pandas",  # Arrow looks for it as soon as an array is made
    "pyarrow.compute",
    "pyarrow.json",
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "mainstem.record.arrow_encode",
    "mainstem.record.arrow_partition",
    "mainstem.spark.queries.pipeline_query",
    "mainstem.spark.sink.sink",
    "mainstem.spark.source",
    "mainstem.spark.tasks.task_reads",
    "mainstem.spark.tasks.typed_scan",
)
# One thread each: threads do not survive a fork, and Spark has a worker for each core.
_SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ForkServer:
    """The server's process as its parent sees it. ``python`` stands in for Python as long as it runs, and after."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="mainstem-spark-"))
        self._socket_path = self._directory / "socket"
        self.python = self._directory / "python"
        client = shlex.join([sys.executable, "-I", "-S", str(_CLIENT)])
        ask = shlex.join([str(self._socket_path), sys.executable])
        self.python.write_text(f'#!/bin/sh\nexec {client} {ask} "$@"\n')
        self.python.chmod(0o700)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._socket_path))
        listener.listen(128)  # clients that connect before the imports are done wait here
        # Spark gives its own workers this seed, too.
        environment = {"PYTHONHASHSEED": "0", **os.environ, **_SINGLE_THREADED}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mainstem.spark.startup.fork_server", str(listener.fileno())],
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # a ctrl-C at the terminal is the driver's to handle
        )
        listener.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which ``mainstem-python``, installed at the same place on all machines, finds the server."""
        return {"MAINSTEM_FORK_CLIENT": str(_CLIENT), "MAINSTEM_FORK_SERVER": str(self._socket_path)}

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """End the server and all that it forked."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_TIMEOUT_S)
        shutil.rmtree(self._directory, ignore_errors=True)


class _Child:
    """A forked process, and the connection to the client that stands in for it."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection


class _Spare:
    """A process that was forked ahead, and the connection that gets its request."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._connection = connection

    def become(self, request: bytes, streams: list[int]) -> None:
        """Send the request to the process. Raises OSError when the process has died."""
        with self._connection as connection:
            socket.send_fds(connection, [len(request).to_bytes(_CODE_BYTES, sys.byteorder)], streams)
            connection.sendall(request)

    def drop(self) -> None:
        """Close the connection, which ends the process."""
        self._connection.close()


class _Server:
    """The loop of the server's process."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._spare: _Spare | None = None
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    def serve(self) -> None:
        """Serve requests until standard input closes."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, "input")
        self._selector.register(self._woken, selectors.EVENT_READ, "signal")
        self._selector.register(self._listener, selectors.EVENT_READ, "listener")
        while True:
            events = self._selector.select(_SPARE_AFTER_S if self._spare is None else None)
            if not events and self._spare is None:
                self._spare = self._forked()
            for key, _ in events:
                if key.data == "input":
                    signal.set_wakeup_fd(-1)  # the children end when this loop, its reader, is over
                    self._kill_all()
                    return
                if key.data == "signal":
                    self._woken.recv(4096)
                    self._reap()
                elif key.data == "listener":
                    self._accept()
                else:
                    self._abandon(key.data)

    def _accept(self) -> None:
        if self._spare is None:
            self._spare = self._forked()  # before this request opens anything that the fork would inherit
        connection, _ = self._listener.accept()
        try:
            connection.settimeout(_ASK_TIMEOUT_S)
            request, streams = _read_request(connection)
        except (OSError, EOFError):
            connection.close()
            return
        pid = self._started(request, streams)
        for stream in streams:
            os.close(stream)
        connection.settimeout(None)
        self._children[pid] = child = _Child(pid, connection)
        self._selector.register(connection, selectors.EVENT_READ, child)
        self._tell(child, pid)

    def _started(self, request: bytes, streams: list[int]) -> int:
        """The id of the process that runs the request: the spare one if it is alive."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with contextlib.suppress(OSError):
                spare.become(request, streams)
                return spare.pid
        forked = self._forked()
        forked.become(request, streams)
        return forked.pid

    def _forked(self) -> _Spare:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become(theirs)
        theirs.close()
        return _Spare(pid, ours)

    def _become(self, control: socket.socket) -> None:
        """In the fork: wait for a request on ``control``, then run it as a Python process. Does not return."""
        code = _FAILED
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for inherited in (
                self._listener,
                self._woken,
                self._waker,
                *(c.connection for c in self._children.values()),
            ):
                inherited.close()
            try:
                request, streams = _read_request(control)
            except (OSError, EOFError):
                os._exit(0)  # the server is gone
            control.close()
            arguments, environment, directory = marshal.loads(request)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            code = _run_module(arguments)
        except BaseException:  # noqa: BLE001 - the fork must never return into the server's loop
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._spare is not None and self._spare.pid == pid:
                self._spare.drop()
                self._spare = None
            child = self._children.pop(pid, None)
            if child is not None:
                self._tell(child, os.waitstatus_to_exitcode(status) & 0xFF)
                self._forget(child)

    def _abandon(self, child: _Child) -> None:
        """Kill the forked process of a client that is gone."""
        if self._children.get(child.pid) is child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        self._forget(child)

    def _forget(self, child: _Child) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(child.connection)
        child.connection.close()

    def _tell(self, child: _Child, number: int) -> None:
        with contextlib.suppress(OSError):  # it may have been killed: ``_abandon`` sees to that
            child.connection.sendall(number.to_bytes(_CODE_BYTES, sys.byteorder))

    def _kill_all(self) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            self._tell(child, _KILLED)  # an end as any other: a program that ends without spark.stop() prints no error


def _read_request(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The marshalled request (arguments, environment, directory) and the standard streams."""
    head, streams, _, _ = socket.recv_fds(connection, _CODE_BYTES, 3)
    if len(head) < _CODE_BYTES or len(streams) != 3:
        raise EOFError
    size, request = int.from_bytes(head, sys.byteorder), b""
    while len(request) < size:
        part = connection.recv(size - len(request))
        if not part:
            raise EOFError
        request += part
    return request, streams


def _run_module(arguments: list[str]) -> int:
    """Run a module like ``python -m MODULE ARGUMENT…``."""
    options = [number for number, argument in enumerate(arguments) if argument == "-m"]
    if not options:
        raise SystemExit(f"the fork server runs modules only, not: {shlex.join(arguments)}")
    module, sys.argv = arguments[options[0] + 1], ["-m", *arguments[options[0] + 2 :]]
    sys.modules.pop(module, None)  # it is about to be __main__; what it imports stays
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path.extend(path for path in paths if path not in sys.path)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else (0 if end.code is None else 1)
    return 0


def _preload() -> None:
    gc.disable()  # while modules load, as in `gateway.server.process`
    for name in PRELOADED:
        importlib.import_module(name)
    import numpy as np

    os.register_at_fork(after_in_child=np.random.seed)
    gc.collect()
    gc.freeze()
    gc.enable()


def main() -> None:
    """The server's process."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    _Server(listener).serve()


if __name__ == "__main__":
    main()
