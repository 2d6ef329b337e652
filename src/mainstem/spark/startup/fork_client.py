"""Stands in for a Python that Spark's JVM starts: asks the fork server for a process, and lives as long as that does.

Run as ``python -I -S fork_client.py SOCKET PYTHON ARGUMENT…`` by the script that ``ForkServer`` writes. It hands over
its standard streams, environment and arguments, passes signals on, and ends with the process's exit code; when it is
killed, the server kills the process. Without a server it becomes ``PYTHON ARGUMENT…`` itself. Only built-in modules are
imported: this file is what each start of a worker waits for.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import sys

_CODE_BYTES = 4


def main(socket_path: str, python: str, arguments: list[str]) -> int:
    """The exit code of the process."""
    if "-m" not in arguments:  # the server runs modules; Spark also asks a Python for its version
        os.execv(python, [python, *arguments])
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect(socket_path)
        _ask(server, arguments)
        pid = int.from_bytes(_receive(server), sys.byteorder)
    except OSError:
        os.execv(python, [python, *arguments])  # no server listens: become the requested process
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, lambda number, _: os.kill(pid, number))
    try:
        return int.from_bytes(_receive(server), sys.byteorder)
    except OSError:
        sys.stderr.write("mainstem: the fork server of Spark's Python processes was killed; start the program again\n")
        return 1


def _ask(server: _socket.socket, arguments: list[str]) -> None:
    request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))  # noqa: PTH109 - pathlib takes longer to import than all else here
    streams = b"".join(fd.to_bytes(_CODE_BYTES, sys.byteorder) for fd in (0, 1, 2))
    head = len(request).to_bytes(_CODE_BYTES, sys.byteorder)
    server.sendmsg([head], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    while request:
        request = request[server.send(request) :]


def _receive(server: _socket.socket) -> bytes:
    data = server.recv(_CODE_BYTES)
    if len(data) < _CODE_BYTES:
        raise ConnectionResetError("the fork server is gone")
    return data


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
