"""A process that ends itself by SIGKILL just before one of its calls to PostgreSQL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import psycopg2
import psycopg2.extensions


def run_killed(work: Callable[[], None], before_call: int) -> bool:
    """Do ``work`` in a child that is killed before that call, counted from 1; whether it came to the call."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _kill_before(before_call)
            work()
            status = 0
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    if os.WIFSIGNALED(waited):
        assert os.WTERMSIG(waited) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(waited) == 0, "the child failed"
    return False


def _kill_before(call: int) -> None:
    """Let this process end before its ``call``-th statement, COPY or commit."""
    left = call

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    class Cursor(psycopg2.extensions.cursor):
        def execute(self, query: Any, arguments: Any = None) -> None:
            count()
            super().execute(query, arguments)

        def copy_expert(self, *arguments: Any) -> None:
            count()
            super().copy_expert(*arguments)

    class Connection(psycopg2.extensions.connection):
        def commit(self) -> None:
            count()
            super().commit()

    connect = psycopg2.connect
    psycopg2.connect = lambda dsn, **options: connect(
        dsn, connection_factory=Connection, cursor_factory=Cursor, **options
    )
