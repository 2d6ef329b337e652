"""A pytest plugin: the markers that say to which tier a test belongs; CONTRIBUTING.md says what the tiers are.

A test is marked by what it asks for (``_BY_FIXTURE``) and by where it lies (``_BY_PLACE``); by hand only where neither
tells. ``make quick`` runs what has none of these markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

_BY_FIXTURE = {
    "spark": "spark",
    "browser": "browser",
    "apache_kafka": "maven",
    "kafka_jars": "maven",
    "postgres_cluster": "slow",
}
_SLOW = (
    "backup/test_compaction.py",
    "backup/test_kills.py",
    "backup/test_restore.py",
    "backup/test_trouble.py",
    "bare",
    "broker/groups/test_slow_members.py",
    "broker/handlers/test_fetch_sessions.py",
    "broker/test_compaction.py",
    "broker/test_crash_points.py",
    "broker/test_durability.py",
    "broker/test_faults.py",
    "broker/test_fuzz.py",
    "broker/test_log_features.py",
    "broker/test_many_partitions.py",
    "broker/test_process.py",
    "broker/test_trees.py",
    "broker/transactions/test_compacted.py",
    "broker/transactions/test_power_cuts.py",
    "cli/test_run_views.py",
    "cli/test_serve.py",
    "client/test_restarts.py",
    "client/test_typing.py",
    "client/test_worker.py",
    "conformance",
    "connectors/test_lake_source.py",
    "connectors/test_load_progress.py",
    "console",
    "examples",
    "fuzz",
    "gateway/test_described_answers.py",
    "gateway/test_many_streams.py",
    "gateway/test_never_stale.py",
    "gateway/test_process.py",
    "gateway/test_request_heads.py",
    "gateway/test_slow_streams.py",
    "history/test_histories.py",
    "hostile",
    "house/test_docs.py",
    "house/test_docs_run.py",
    "kafka_directory",
    "lake/test_table.py",
    "log/test_compaction.py",
    "log/test_simulation.py",
    "log/test_simulation_compaction.py",
    "log/test_simulation_mutants.py",
    "log/test_simulation_rot.py",
    "log/test_simulation_verifiable.py",
    "log/test_timestamps.py",
    "mirror",
    "node/test_stack.py",
    "node/test_stack_backup.py",
    "record/test_arrow_decode_histories.py",
    "postgres/test_connector.py",
    "postgres/test_histories.py",
    "postgres/test_kills.py",
    "postgres/test_run.py",
    "record/test_arrow_decode_histories.py",
    "registry/test_avro_java.py",
    "registry/test_json_schema_soundness.py",
    "registry/test_kills.py",
    "registry/test_protobuf.py",
    "registry/test_protobuf_compatibility.py",
    "registry/test_protobuf_text.py",
    "spark/test_fork_server.py",
    "spark/test_local_segments.py",
    "spark/test_transaction_outcome.py",
    "spark/test_transactions.py",
    "testing/test_broker_process.py",
    "testing/test_plugin.py",
    "tlog/test_foreign_checkers.py",
    "tlog/test_growing_history.py",
    "torture/test_seam.py",
    "views/test_compacted_topics.py",
    "views/test_damaged_topics.py",
    "views/test_encoded_topics.py",
    "views/test_host.py",
    "views/test_lake.py",
    "views/test_lake_feed.py",
    "views/test_metrics.py",
    "views/test_past_build.py",
    "views/test_sampling.py",
    "views/test_sigkill.py",
    "views/test_store_snapshots.py",
    "views/test_verify.py",
)
"""Directories, and files that take or wait more than some five seconds: soaks, kills, processes, real clients."""
_BY_PLACE = {
    **dict.fromkeys(_SLOW, "slow"),
    "endtoend": "endtoend",
    "torture/test_kill_points.py": "spark",
    "torture/test_random_kills.py": "spark",
}
_TESTS = Path(__file__).resolve().parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark, before ``-m`` chooses."""
    for item in items:
        for name in set(_markers(item)):
            item.add_marker(name)


def _markers(item: pytest.Item) -> Iterator[str]:
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in _BY_FIXTURE:
            yield _BY_FIXTURE[fixture]
    for place in (item.path, *item.path.parents):
        if place.is_relative_to(_TESTS) and (name := _BY_PLACE.get(place.relative_to(_TESTS).as_posix())):
            yield name
