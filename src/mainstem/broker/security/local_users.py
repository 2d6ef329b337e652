"""The users of a data directory that no log process has open: to create the first user before any login is possible.

The directory is opened as the log itself opens it, locked and recovered, and closed cleanly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.broker.security.credentials import Credentials
from mainstem.clock import SystemClock
from mainstem.durable_files import private_directory
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import META_PROPERTIES
from mainstem.log.node.node_log import NodeLog


@contextmanager
def local_credentials(data_dir: Path) -> Iterator[Credentials]:
    """The users of a directory, for as long as the block takes; changes are durable at once.

    Raises DirectoryLockedError while a log process has it open, StorageError.
    """
    private_directory(data_dir, marker=META_PROPERTIES)
    log = NodeLog.open(OsDisk(), SystemClock(), data_dir, {})
    try:
        yield Credentials(log.metadata)
    finally:
        log.close()
