"""SIGKILL of the capture and of the log, and the end of the server's sender, at random: nothing lost, nothing twice."""

from __future__ import annotations

from pathlib import Path

from tests.postgres import killed
from tests.support.postgres import PostgresCluster, PostgresDatabase

KILLS = 8


def test_each_change_is_in_the_log_once_whatever_is_killed(
    postgres_cluster: PostgresCluster, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    survived = killed.run(postgres_cluster, postgres_database.name, tmp_path, kills=KILLS, seed=KILLS)
    assert survived.changes > 1_000
    assert 0 < survived.kills_in_snapshots < KILLS
