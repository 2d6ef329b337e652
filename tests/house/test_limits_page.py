"""``docs/reference/limits.md`` is true: each row has a setting with its default, or the constants behind it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from mainstem.broker.configs.broker_config import SETTINGS as OF_BROKER
from mainstem.gateway.access.limits import SETTINGS as OF_GATEWAY
from mainstem.log.partition.config import CONFIGS as OF_TOPIC

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"

# What a row begins with → the constants whose values stand in it. ``Class.field`` is the default of a dataclass field.
CONSTANTS = {
    "a string in a request": ["protocol.compiler:MAX_STRING_BYTES"],
    "elements of arrays": ["protocol.compiler:MAX_ELEMENTS", "protocol.compiler:MAX_TAGGED_FIELDS"],
    "judgements": ["broker.access.authorizer:_ALLOWED_BYTES_MAX"],
    "long requests": ["broker.node:_LONG_REQUESTS"],
    "subtopologies": [
        "broker.groups.streams.topology:_SUBTOPOLOGIES_MAX",
        "broker.groups.streams.topology:_TOPICS_MAX",
        "broker.groups.streams.topology:TASKS_MAX",
        "broker.groups.streams.streams_steps:_WORK_MAX",
    ],
    "elements of a request": ["broker.api:_ELEMENTS_MAX"],
    "segment files": ["open_files:SEGMENT_FILES_MAX"],
    "space for old records": [
        "broker.storage.remote.remote_pieces:PIECES_MAX",
        "broker.storage.remote.remote_storage:_LOADS_AT_ONCE",
        "broker.storage.remote.remote_storage:_LOADS_MAX",
    ],
    "the least size of a segment": ["log.partition.config:SEGMENT_BYTES_MIN"],
    "records of one append, in a topic": ["log.partition.append_validation:FEATURE_RECORDS_MAX"],
    "records that a refusal": ["record.record_check:BROKEN_RECORDS_MAX"],
    "batches of one connection": ["broker.storage.validation_threads:_THREADS"],
    "size of a record batch when it is decompressed": ["record.constants:DECOMPRESSED_BYTES_MAX"],
    "bytes of a request's line": ["gateway.access.request_heads:HEAD_BYTES_MAX"],
    "headers of a request": ["gateway.access.request_heads:HEADERS_MAX"],
    "time until a request's head": ["gateway.access.request_heads:HEAD_S"],
    "time after a refused body": ["gateway.access.request_heads:HEAD_S"],
    "a schema's text": ["registry.requests:SCHEMA_BYTES_MAX", "registry.requests:_EXTRAS_BYTES_MAX"],
    "schemas that one schema": ["registry.parsing:_REFERENCES_MAX"],
    "levels, types": ["registry.formats.avro.avro_writer:DEPTH_MAX", "registry.formats.avro.avro_reader:TYPES_MAX"],
    "time, memory of the Protobuf": [
        "registry.formats.protobuf.protobuf_compiler:_TIMEOUT_S",
        "registry.formats.protobuf.protobuf_compiler:_MEMORY_BYTES",
    ],
    "schemas, subjects or versions": [
        "gateway.registry.registry_query:SCHEMAS_MAX",
        "gateway.registry.registry_query:SUBJECTS_MAX",
    ],
    "texts of a list of schemas": ["gateway.registry.registry_json:LIST_CHARACTERS_MAX"],
    "a token (OAUTHBEARER)": [
        "broker.security.oauth:TOKEN_BYTES_MAX",
        "broker.security.oauth_keys:JWKS_BYTES_MAX",
        "broker.security.oauth_keys:JWKS_KEYS_MAX",
        "broker.security.oauth_keys:_FETCH_S",
    ],
    "metrics that a client": [
        "broker.telemetry.telemetry:DECOMPRESSED_BYTES_MAX",
        "broker.telemetry.otlp:FIELDS_MAX",
        "broker.telemetry.otlp:POINTS_MAX",
    ],
    "series of clients' metrics": ["broker.telemetry.received_metrics:_SERIES_OF_CLIENT_MAX"],
    "clients that ask for subscriptions": [
        "broker.telemetry.client_instances:INSTANCES_MAX",
        "broker.telemetry.subscription_configs:SUBSCRIPTIONS_MAX",
    ],
    "JSON values": ["gateway.http.bodies:VALUES_MAX", "gateway.http.bodies:RECORD_VALUES_MAX"],
    "time in which a client takes": [
        "gateway.access.request_limits:PIECE_BYTES",
        "gateway.access.request_heads:STALL_S",
    ],
    "groups that the consumers": [
        "client.admin.topic_consumers:GROUPS_MAX",
        "gateway.topics.topic_details:_ENTRIES_MAX",
    ],
    "records of one append": ["gateway.http.record_bodies:RECORDS_MAX"],
    "records of one read": ["gateway.topics.reads:_ANSWER_BYTES_MAX"],
    "pipelines of a record's journey": [
        "pipelines.journey.journey:STEPS_MAX",
        "pipelines.journey.journey:DEPTH_MAX",
        "gateway.operation.journey_routes:_VIEWS_MAX",
        "pipelines.journey.batch_search:READ_MAX",
        "pipelines.journey.key_search:SCAN_MAX",
    ],
    "seconds after which a journey": ["pipelines.journey.journey:TIME_MAX_S", "pipelines.journey.steps:_KEY_BYTES_MAX"],
    "batches, bytes and offsets that a mirror's request": [
        "log.partition.mirrored_batches:_STEP_BATCHES",
        "log.partition.mirrored_batches:_RUN_BYTES",
        "log.partition.mirrored_batches:_STEP_OFFSETS",
    ],
    "topics followed for streams": ["gateway.streams.topic_stream:_TAILS_MAX"],
    "time in which a stream's client": ["gateway.streams.event_stream:STALL_S"],
    "requests that wait for a reply": [
        "gateway.requests.reply_follower:PENDING_MAX",
        "gateway.requests.reply_follower:FOLLOWERS_MAX",
    ],
    "questions of one view": [
        "gateway.views.backend:_VIEW_READERS_MAX",
        "gateway.views.backend:_VIEW_REQUESTS_MAX",
        "gateway.views.backend:_QUEUE_S",
    ],
    "series of the history": [
        "gateway.monitoring.ring_file:COLUMNS_MAX",
        "gateway.monitoring.ring_file:FILE_BYTES_MAX",
    ],
    "series of one answer of `/history`": [
        "gateway.monitoring.monitoring_routes:_SERIES_MAX",
        "gateway.monitoring.monitoring_routes:_POINTS_IN_ALL",
    ],
    "marks of one answer": ["gateway.monitoring.marks:MARKS_MAX", "console.health.history_marks:MARKS_MAX"],
    "entries of a pipeline's log": [
        "pipelines.control.run_log:ENTRIES_MAX",
        "pipelines.control.run_log:ENTRY_BYTES_MAX",
        "pipelines.control.run_log:PLAN_BYTES_MAX",
        "pipelines.control.run_notes:_WAITING_MAX",
    ],
    "dead letters known": [
        "client.dead_letters:LETTERS_MAX",
        "client.dead_letters:_ALL_LETTERS_MAX",
        "client.dead_letters:GROUPS_MAX",
    ],
    "ranges of handled": [
        "client.handled_letters:RANGES_MAX",
        "client.handled_letters:RANGES_IN_ALL",
    ],
    "searches at once": [
        "gateway.streams.topic_search:SEARCHES_MAX",
        "gateway.streams.topic_search:BYTES_MAX",
        "gateway.streams.search_conditions:WHERE_CHARS_MAX",
        "gateway.streams.search_conditions:COMPARISONS_MAX",
    ],
    "websockets of the console": ["console.console_mount:PAGES_MAX"],
    "sessions of the console": ["console.sign_in:SESSIONS_MAX"],
    "time to wait": ["views.read_options:WAIT_S", "views.read_options:WAIT_S_MAX"],
    "bytes of a SQL query": ["views.stores.sql.query_bounds:SQL_BYTES_MAX"],
    "opening brackets of a SQL": ["views.stores.sql.query_bounds:SQL_BRACKETS_MAX"],
    "bytes of a search query": ["views.stores.sql.query_bounds:SEARCH_BYTES_MAX"],
    "opening brackets and": ["views.stores.sql.query_bounds:SEARCH_BRACKETS_MAX"],
    "time of a SQL query": ["views.requests:SqlQuery.timeout_s", "views.requests:TIMEOUT_S_MAX"],
    "rows of an answer": [
        "views.requests:SqlQuery.limit",
        "views.requests:SearchQuery.limit",
        "views.requests:RangeQuery.limit",
        "views.requests:LIMIT_MAX",
    ],
    "bytes of an answer's rows": [
        "views.stores.sql.query_bounds:ANSWER_BYTES_MAX",
        "views.verification.diff:_ANSWER_BYTES",
    ],
    "levels of lists": ["views.stores.sql.query_bounds:DEPTH_MAX"],
    "memory of the queries": ["views.stores.sql.query_bounds:MEMORY_MAX"],
    "disk that one SQL view": ["views.stores.sql.sql_table:SPILL_MAX"],
    "memory of a view host": [],  # a share of the machine
    "time that a SQL query goes on": ["views.stores.sql.query_watch:OVERRUN_S"],
    "levels of JSON in a record": ["json_depth:DEPTH_MAX"],
    "bytes of a key in a view": ["views.stores.json_reader:KEY_BYTES_MAX"],
    "bytes of a key in a [sink]": [
        "views.stores.table.postgres_dialect:KEY_BYTES_MAX",
        "views.stores.table.mariadb_dialect:KEY_BYTES_MAX",
        "views.stores.table.sqlite_dialect:KEY_BYTES_MAX",
        "pipelines.kinds:_TABLE_BYTES_MAX",
    ],
    "time that a sink waits": [
        "views.stores.table.database:LOCK_TIMEOUT_S",
        "views.stores.table.database:STATEMENT_TIMEOUT_S",
        "views.stores.table.dialect:SWAP_LOCK_S",
    ],
    "a row of a [captured]": [
        "postgres.start:_MESSAGE_BYTES",
        "postgres.server.chunks:_BYTES_MAX",
        "postgres.server.replication:_HELD_BYTES",
    ],
    "hops of a graph": ["views.requests:HOPS_MAX", "views.stores.graph.graph_walks:_VISITED_MAX"],
    "bytes of a line": ["connectors.json_lines:_LINE_BYTES_MAX"],
    "bytes of a CSV header": ["connectors.csv_files:_HEADER_BYTES_MAX"],
    "levels of JSON in a value": ["json_depth:DEPTH_MAX"],
    "records of a table": ["spark.queries.query:BROADCAST_RECORDS_MAX"],
    "differing records": ["spark.verification.verification:EXAMPLES_MAX"],
    "micro-batches": ["pipelines.state:RECENT_MAX"],
    "time between two starts": ["spark.queries.query_keeper:_PAUSE_S_MAX"],
    "levels of an Avro schema": ["schema.avro:_DEPTH_MAX"],
    "bytes of a schema registry": ["schema.avro_registry:_ANSWER_BYTES_MAX"],
    "buckets, minutes": ["pipelines.kinds:_BUCKETS_MAX", "pipelines.kinds:_MINUTES_MAX", "pipelines.kinds:_LABELS_MAX"],
}
# Rows of what has no number of its own, or one that the format of another system gives.
IN_WORDS = ("batches of one partition in a produce request", "`Host`", "reports of values that became null")


LEAST_VALUES = ("the least size of a segment",)  # rows about the least value of a setting, not about its default


class Row(NamedTuple):
    what: str
    name: str
    default: str
    beyond: str


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0] != "what" and set(cells[0]) != {"-"}:
            found.append(Row(*cells))
    return found


def settings_of(row: Row) -> list[tuple[str, object]]:
    """The settings that the row names, and their defaults in the code."""
    found: list[tuple[str, object]] = []
    if row.what.startswith(LEAST_VALUES):
        return found
    for name in re.findall(r"`([a-z.]+)`", row.name):
        if name in OF_BROKER:
            found.append((name, OF_BROKER[name].default))
        elif name in OF_TOPIC:
            found.append((name, OF_TOPIC[name].default))
    return found


def constants_of(row: Row) -> list[str]:
    """The constants of the row: those of the longest beginning that fits."""
    fitting = [beginning for beginning in CONSTANTS if row.what.startswith(beginning)]
    return CONSTANTS[max(fitting, key=len)] if fitting else []


def value_of(constant: str) -> object:
    module, _, name = constant.partition(":")
    found: object = importlib.import_module(f"mainstem.{module}")
    for part in name.split("."):
        fields = getattr(found, "__dataclass_fields__", {})
        found = fields[part].default if part in fields else getattr(found, part)
    return found


def written(value: object) -> str:
    """A pattern for the ways in which the page writes a number: 65,536, 64 MiB, 30 s, 1 GB."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)
    if isinstance(value, str):
        return re.escape(re.sub(r"(\d)(GB)", r"\1 \2", value))
    assert isinstance(value, int | float)
    ways = [f"{value:,.0f}"]
    ways += [f"{int(value) >> shift} {unit}" for shift, unit in ((10, "KiB"), (20, "MiB")) if value % (1 << shift) == 0]
    return "|".join(rf"(?<![\d,]){re.escape(way)}(?![\d,]*\d)" for way in ways)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what)
def test_a_row_says_what_the_code_keeps(row: Row) -> None:
    values = [value for _, value in settings_of(row)] + [value_of(each) for each in constants_of(row)]
    for value in values:
        assert re.search(written(value), " ".join(row)), f"{value!r} is not in {row}"
    is_of_gateway = any(name in OF_GATEWAY for name in re.findall(r"`([a-z.]+)`", row.name))  # tests/gateway has them
    is_known = any(row.what.startswith(beginning) for beginning in (*CONSTANTS, *IN_WORDS))
    assert values or is_of_gateway or is_known, "name the row's constants in CONSTANTS"


def test_every_entry_is_of_a_row() -> None:
    whats = [row.what for row in rows()]
    assert [each for each in (*CONSTANTS, *IN_WORDS) if not any(what.startswith(each) for what in whats)] == []


def test_every_bound_among_the_settings_of_the_log_is_on_the_page() -> None:
    named = {name for row in rows() for name in re.findall(r"`([a-z.]+)`", row.name)}
    bounds = {name for name in OF_BROKER if name.startswith("mainstem.") and name.endswith((".max", ".bytes", ".min"))}
    assert bounds - named == set()


def test_a_number_that_is_only_a_part_of_another_is_not_found() -> None:
    assert re.search(written(512), "512; a quarter")
    assert not re.search(written(512), "1,512")
    assert not re.search(written(1), "1,440")
