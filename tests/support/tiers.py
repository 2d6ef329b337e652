"""A pytest plugin: the markers that say to which tier a test belongs; CONTRIBUTING.md says what the tiers are.

A test is marked by what it asks for (``_BY_FIXTURE``) and by where it lies (``_BY_PLACE``); by hand only where neither
tells. ``make quick`` runs what has none of these markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_BY_FIXTURE = {
    "spark": "spark",
    "browser": "browser",
    "apache_kafka": "maven",
    "kafka_jars": "maven",
    "mariadb_server": "slow",
    "postgres_cluster": "slow",
    "sink_database": "slow",
}
_SLOW = (
    "backup/test_compaction.py",
    "backup/test_kills.py",
    "backup/test_remote_readers.py",
    "backup/test_remote_segments.py",
    "backup/test_remote_trouble.py",
    "backup/test_restore.py",
    "backup/test_trouble.py",
    "bare",
    "broker/groups/test_slow_members.py",
    "broker/handlers/test_acls.py",
    "broker/handlers/test_content_validation.py",
    "broker/handlers/test_fetch_sessions.py",
    "broker/handlers/test_produced_records.py",
    "broker/share/test_share_state.py",
    "broker/test_compaction.py",
    "broker/test_crash_points.py",
    "broker/test_durability.py",
    "broker/test_faults.py",
    "broker/test_fuzz.py",
    "broker/test_group_crash_points.py",
    "broker/test_housekeeping.py",
    "broker/test_killed_release.py",
    "broker/test_log_features.py",
    "broker/test_many_partitions.py",
    "broker/test_process.py",
    "broker/test_security.py",
    "broker/test_session_eviction.py",
    "broker/test_trees.py",
    "broker/transactions/test_compacted.py",
    "broker/transactions/test_power_cuts.py",
    "cli/test_main.py",
    "cli/test_run_refused.py",
    "cli/test_run_views.py",
    "cli/test_serve.py",
    "cli/test_wrong_input.py",
    "client/test_bench.py",
    "client/test_damage.py",
    "client/test_oauth_tokens.py",
    "client/test_restarts.py",
    "client/test_security.py",
    "client/test_time_search.py",
    "client/test_typing.py",
    "client/test_worker.py",
    "conformance",
    "connectors/test_json_text.py",
    "connectors/test_lake_source.py",
    "connectors/test_load_progress.py",
    "connectors/test_type_matrix.py",
    "console",
    "differential/test_planted_difference.py",
    "encodings/test_avro_encode.py",
    "encodings/test_confluent_clients.py",
    "encodings/test_content.py",
    "encodings/test_keys.py",
    "encodings/test_protobuf.py",
    "encodings/test_protobuf_native.py",
    "encodings/test_topic_values.py",
    "examples",
    "fuzz",
    "gateway/test_access_routes.py",
    "gateway/test_described_answers.py",
    "gateway/test_journeys.py",
    "gateway/test_large_bodies.py",
    "gateway/test_limits.py",
    "gateway/test_log_metrics.py",
    "gateway/test_many_streams.py",
    "gateway/test_never_stale.py",
    "gateway/test_operation_routes.py",
    "gateway/test_process.py",
    "gateway/test_request_heads.py",
    "gateway/test_slow_streams.py",
    "gateway/test_type_matrix.py",
    "gateway/test_view_stream.py",
    "history/test_histories.py",
    "hostile",
    "house",
    "kafka_directory",
    "lake/test_table.py",
    "log/test_cleaning.py",
    "log/test_compaction.py",
    "log/test_simulation.py",
    "log/test_simulation_compaction.py",
    "log/test_simulation_mutants.py",
    "log/test_simulation_rot.py",
    "log/test_simulation_verifiable.py",
    "log/test_timestamps.py",
    "mcp/test_tools.py",
    "mirror",
    "node/test_monitoring_files.py",
    "node/test_pages_on_security.py",
    "node/test_pages_with_databases.py",
    "node/test_pages_with_nodes.py",
    "node/test_stack.py",
    "node/test_stack_backup.py",
    "packaging/test_distributions.py",
    "packaging/test_image.py",
    "pipelines/journey/test_batch_search.py",
    "postgres/test_connector.py",
    "postgres/test_histories.py",
    "postgres/test_kills.py",
    "postgres/test_native_rows.py",
    "postgres/test_run.py",
    "record/test_arrow_decode.py",
    "record/test_arrow_decode_histories.py",
    "record/test_walk_code.py",
    "registry/test_apicurio.py",
    "registry/test_associations.py",
    "registry/test_avro_compatibility.py",
    "registry/test_avro_java.py",
    "registry/test_confluent_clients.py",
    "registry/test_data_contracts.py",
    "registry/test_json_schema_compatibility.py",
    "registry/test_json_schema_soundness.py",
    "registry/test_kills.py",
    "registry/test_protobuf.py",
    "registry/test_protobuf_compatibility.py",
    "registry/test_protobuf_text.py",
    "registry/test_schema_validation.py",
    "registry/test_settings.py",
    "registry/test_store.py",
    "registry/test_subjects.py",
    "schema/test_arrow_json.py",
    "schema/test_json_rows.py",
    "spark/test_environment.py",
    "spark/test_fork_server.py",
    "spark/test_imports.py",
    "spark/test_local_segments.py",
    "spark/test_ranges.py",
    "spark/test_stream_reader.py",
    "spark/test_transaction_outcome.py",
    "spark/test_transactions.py",
    "testing/test_broker_process.py",
    "testing/test_plugin.py",
    "tlog/test_foreign_checkers.py",
    "tlog/test_growing_history.py",
    "tlog/test_notes.py",
    "torture/test_seam.py",
    "views/test_compacted_topics.py",
    "views/test_coverage.py",
    "views/test_damaged_topics.py",
    "views/test_encoded_topics.py",
    "views/test_host.py",
    "views/test_host_past.py",
    "views/test_killed_rebuild.py",
    "views/test_lake.py",
    "views/test_lake_feed.py",
    "views/test_lake_process.py",
    "views/test_late_schemas.py",
    "views/test_metrics.py",
    "views/test_past_build.py",
    "views/test_query_process.py",
    "views/test_sampling.py",
    "views/test_sigkill.py",
    "views/test_sql_process.py",
    "views/test_sql_spill.py",
    "views/test_store_contract.py",
    "views/test_store_snapshots.py",
    "views/test_type_matrix.py",
    "views/test_verify.py",
    "views/test_watched_rows.py",
)
"""Directories, and files that take more than some two seconds of a core: soaks, kills, processes, real clients."""
_BY_PLACE = {
    **dict.fromkeys(_SLOW, "slow"),
    "endtoend": "endtoend",
    "torture/test_kill_points.py": "spark",
}
_TESTS = Path(__file__).resolve().parents[1]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole files of the slow tier when ``-m`` leaves their tests out: it saves importing them."""
    if not str(config.option.markexpr).startswith("not (slow or "):
        return None
    return True if "slow" in _places(collection_path) else None


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
    yield from _places(item.path)


@cache
def _places(path: Path) -> tuple[str, ...]:
    if not path.is_relative_to(_TESTS):
        return ()
    place = path.relative_to(_TESTS)
    return tuple(_BY_PLACE[each.as_posix()] for each in (place, *place.parents) if each.as_posix() in _BY_PLACE)
