"""SIGKILL of a view host at each step of a rebuild: after a restart the old or the new version answers, whole."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.views.read_options import ReadOptions
from tests.views import killed_rebuild
from tests.views.forked import forked
from tests.views.hosting import REQUESTS, Setting
from tests.views.killed_rebuild import FORMER, NEW, STEPS

RECORDS = 500
OLD_SERVES = ("note the definition", "sync the new version", "write the pointer", "rename the pointer")


@pytest.mark.parametrize(
    ("step", "view"), [*((step, "kv") for step in STEPS), ("rename the pointer", "sql"), ("sync the directory", "sql")]
)
def test_a_rebuild_that_is_killed_at_any_step_leaves_one_whole_version(
    mainstem_log: Log, tmp_path: Path, step: str, view: str
) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    flights = [(f"k{n % 97}", {"origin": "A", "dest": "B", "miles": n}) for n in range(RECORDS)]
    end = mainstem_log.append_many(setting.topic, flights)
    with setting.host() as host:
        before = host.query(view, REQUESTS[view], ReadOptions(at_least=end)).rows
    arguments = (setting.topic, mainstem_log.bootstrap, str(tmp_path), view, step)
    with forked(killed_rebuild.main, *arguments) as process:
        assert process.wait(120) == -signal.SIGKILL
    serves = FORMER if step in OLD_SERVES else NEW
    assert (tmp_path / view / "current").read_text() == f"{serves}\n"
    with setting.host() as host:
        after = host.query(view, REQUESTS[view], ReadOptions(at_least=end)).rows
        assert sorted(map(str, after)) == sorted(map(str, before))
        result = host.verify(view)
        assert (result.equal, result.differences, result.records) == (True, (), RECORDS)
        assert [path.name for path in (tmp_path / view).glob("v0*")] == [serves]
