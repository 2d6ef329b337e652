"""The example of drift, run whole: the App, the accounts, the cooked books, and the row that `verify` names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples import drift as example
from mainstem.client.http.views import views
from mainstem.client.log import Log

RICHEST = "SELECT owner, balance FROM balances ORDER BY balance DESC LIMIT 1"


@contextmanager
def running(data: Path) -> Iterator[dict[str, str]]:
    """The App, run by the command and stopped as ctrl-C does; its addresses."""
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", example.__file__, "--json", "--data", str(data)]
    process = subprocess.Popen(
        [*argv, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready: dict[str, str] = json.loads(process.stdout.readline())["ready"]
        yield ready
    finally:
        process.terminate()
        process.communicate(timeout=120)


def test_who_cooks_the_books_is_named(tmp_path: Path) -> None:
    with running(tmp_path) as ready, Log(ready["kafka"], timeout_s=60) as log:
        position = example.open_accounts(log)
        before = views(ready["http"])["balances"].sql(RICHEST, at_least=position, timeout=120)
        assert before.rows == [{"owner": "ada", "balance": 180.0}]
    example.cook_the_books(tmp_path)
    with running(tmp_path) as ready:
        balances = views(ready["http"])["balances"]
        assert balances.sql(RICHEST, at_least=position, timeout=120).rows == [{"owner": "mallory", "balance": 1e6}]
        for full in (False, True):
            [found] = balances.verify(full=full)["differences"]
            assert (found["key"], found["expected"]["balance"], found["actual"]["balance"]) == ("mallory", 7.25, 1e6)
        assert balances.status()["drifted"]
        balances.rebuild()
        assert balances.verify(full=False)["method"] == "account"
        assert balances.sql(RICHEST, at_least=position).rows == before.rows
