"""Ends a capture for good: what it keeps in the database, and its progress in the log. Its topics stay."""

from __future__ import annotations

from mainstem.client.log import Log
from mainstem.errors import UnknownTopicError
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, keys_of
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.pipelines.progress import PROGRESS_TOPIC
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.postgres.captured_state import capture_key
from mainstem.postgres.server.catalog import connect
from mainstem.postgres.server.slot import drop


def drop_capture(settings: CaptureSettings, log: Log) -> bool:
    """Drop the slot, the publication, and the records of the capture; whether there was a slot.

    Raises ConfigError while the capture runs, DatabaseUnavailableError, LogUnavailableError.
    """
    connection = connect(settings.dsn)
    try:
        had_slot = drop(connection, settings.slot)
    finally:
        connection.close()
    name = settings.name
    for topic, key in ((PROGRESS_TOPIC, name), (PROGRESS_TOPIC, capture_key(name)), (STATES_TOPIC, name)):
        try:
            log.append(topic, None, key=key)
        except UnknownTopicError:  # it has never run against this log
            continue
    if entries := keys_of(log, name):
        log.append_many(RUN_LOG_TOPIC, [(key, None) for key in entries])
    return had_slot
