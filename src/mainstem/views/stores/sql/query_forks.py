"""Forks the processes that answer SQL from one that has imported Arrow and DuckDB.

To import them takes 0.35 s of processor time, and a view host has such a process for each SQL view and each past state
that is read. So the first one starts a *fork server*, which imports them and forks whenever its parent asks:
``python -P -m mainstem.views.stores.sql.query_forks DESCRIPTOR``, a socket of the parent. There are two requests:

* 0 and a descriptor: fork a process that serves this socket. The answer is its process id.
* a process id: kill that process. The answer comes when it has ended. The server waits for a process only then, so its
  id cannot be another's before.

The server has one thread, and ends when the parent's socket closes. So does each process that it forked. All have the
environment and the directory of the first request.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # while modules load, as in `gateway.server.process`

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from typing import Final

from mainstem.errors import StorageError
from mainstem.exit_codes import DONE
from mainstem.extras import import_arrow_alone

_LOG: Final = logging.getLogger("mainstem.views")
_FORK: Final = 0
_ATTEMPTS: Final = 2
_ENDS_S: Final = 10.0
_PAUSE_S: Final = 0.001
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""numpy would start threads at its import, and a fork has none of them."""


class QueryForks:
    """The fork server as its parent sees it, started by the first request and again after it has ended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: Connection | None = None

    def fork(self, theirs: Connection) -> int:
        """The id of a new process, which answers SQL at this end of a pipe. Raises StorageError."""
        why: object = None
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    server, server_pid = self._started()
                    server.send(_FORK)
                    send_handle(server, theirs.fileno(), server_pid)
                    pid, why = server.recv()
                    if pid:
                        return int(pid)
                except EOFError:
                    why = "the process that forks it has ended"
                    self._forget()
                except OSError as error:
                    why = error
                    self._forget()
                except BaseException:  # an interrupt: the next answer would be the one to this request
                    self._forget()
                    raise
        raise StorageError(f"a process for SQL cannot be started: {why}")

    def end(self, pid: int) -> None:
        """Kill a process whose socket is closed; its files are free for others when this returns."""
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.send(pid)
                    if self._socket.recv():
                        return
                except (EOFError, OSError):
                    self._forget()
                except BaseException:
                    self._forget()
                    raise
        _wait_for_orphan(pid)

    def _started(self) -> tuple[Connection, int]:
        """The socket of the server, and the server's process id."""
        if self._socket is None or self._process is None:
            self._socket, theirs = Pipe()
            argv = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
            with theirs:
                self._process = subprocess.Popen(
                    argv,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **_ONE_THREAD},
                )
        return self._socket, self._process.pid

    def stop(self) -> None:
        """End the server. The processes that it forked end when their sockets close."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None


def _wait_for_orphan(pid: int) -> None:
    """Wait for the end of a process whose fork server has ended. It is not killed: its id may be another's by now."""
    deadline = time.monotonic() + _ENDS_S
    with suppress(ProcessLookupError, PermissionError):  # there is none, or it is another user's by now
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(_PAUSE_S)
        _LOG.warning("the process %d of a view's SQL has not ended after %g s", pid, _ENDS_S)


def _next_fork(parent: Connection) -> Connection:
    """Serve the parent. Only a forked process returns from here, with its socket."""
    children: set[int] = set()
    while True:
        ending = parent.recv()
        if ending != _FORK:
            is_child = ending in children
            if is_child:
                os.kill(ending, signal.SIGKILL)
                os.waitpid(ending, 0)
                children.discard(ending)
            parent.send(is_child)
            continue
        theirs = Connection(recv_handle(parent))
        try:
            pid = os.fork()
        except OSError as error:
            parent.send((0, str(error)))
        else:
            if pid == 0:
                parent.close()
                return theirs
            children.add(pid)
            parent.send((pid, ""))
        theirs.close()


def main() -> None:
    """Import, and fork until the parent is gone."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # they reach the whole group; the parent closes the sources
    import_arrow_alone()

    from mainstem.views.stores.sql import query_server, served_table  # noqa: F401

    gc.freeze()
    try:
        with suppress(EOFError, ConnectionError):  # the parent has ended
            query_server.serve(_next_fork(Connection(int(sys.argv[1]))))
    except Exception:  # noqa: BLE001 - the next line ends this process
        _LOG.exception("a process of a view's SQL ended")
    os._exit(DONE)  # no clean exit: DuckDB reports frozen objects that still exist then as leaked


if __name__ == "__main__":
    main()
