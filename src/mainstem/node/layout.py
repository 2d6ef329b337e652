"""Where the parts of a node lie under its data directory.

    DATA/                                the log's own: topics' directories, meta.properties, …
    DATA/run/<role>.log                  what each process printed
    DATA/run/supervisor.prom             restarts of the processes, for the page of metrics
    DATA/run/backup.prom                 how the backup is doing, likewise; backup.lock, backup-writer: whose it is
    DATA/run/mirror.prom                 how a mirror into this log is doing, if it writes there
    DATA/run/history.ring                what the gateway sampled: an hour and a day, at most 9.6 MB
    DATA/run/views.sock                  the view host's socket, readable by its owner only
    DATA/run/metrics.sock                the log's metrics, likewise
    DATA/views/<app>/<view>/…            the views' stores
    DATA/checkpoints/<app>/<pipeline>/   Spark's checkpoints

A Unix socket's path may have 107 bytes: under a longer data directory the sockets move to a directory of this user
under the system's temporary directory, named after the data directory. Pure functions but for ``make_directories``.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstem.durable_files import private_directory
from mainstem.errors import StorageError
from mainstem.log.files.names import META_PROPERTIES

_SOCKET_PATH_BYTES_MAX = 107
HISTORY_FILE: Final = "history.ring"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one data directory."""

    data: Path

    @property
    def run(self) -> Path:
        """Sockets and the processes' output."""
        return self.data / "run"

    def socket(self, name: str) -> Path:
        """The Unix socket of that name; short enough wherever the data directory is."""
        path = (self.run / f"{name}.sock").absolute()
        if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
            return path
        digest = hashlib.sha256(os.fsencode(self.data.absolute())).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"mainstem-{os.getuid()}-{digest}" / f"{name}.sock"

    def checkpoints(self, app: str) -> Path:
        """Spark's checkpoints of one App."""
        return self.data / "checkpoints" / app

    def make_directories(self) -> None:
        """Create what is missing; all of it is for this user only. Raises StorageError."""
        try:
            private_directory(self.data, marker=META_PROPERTIES)
            for directory in {self.run, self.socket("views").parent}:
                if directory.is_symlink():
                    raise StorageError(f"{directory} is a symbolic link, which another user may have made: remove it")
                private_directory(directory)
        except StorageError as error:
            raise StorageError(f"the data directory cannot be used: {error}; name another (--data)") from error
