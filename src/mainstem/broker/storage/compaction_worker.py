"""The process that compacts: ``python -m mainstem.broker.storage.compaction_worker``. The log process starts it.

A job comes as a line on standard input; the answers go as lines to standard output (``log.cleaning.compaction_job``).
It has no state: killed at any moment, it leaves files that end in ``.cleaned``, which the next job of that partition,
or its next opening, removes. It ends with its standard input, also in the middle of a job, so it never outlives the
log process; and it runs at low priority. Where numba and numpy are installed, only this process loads them on the
log's behalf.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from mainstem.errors import MainstemError
from mainstem.log.cleaning.compaction import compact
from mainstem.log.cleaning.compaction_job import decode_job, encode_answer
from mainstem.log.files.disk import OsDisk

_NICENESS: Final = 10


def main() -> None:
    """Serve jobs until standard input ends."""
    with suppress(OSError):
        os.nice(_NICENESS)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    while True:
        _run(jobs.get())


def _read_jobs(jobs: SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


def _run(line: bytes) -> None:
    try:
        for answer in compact(OsDisk(), decode_job(line)):
            _answer(encode_answer(answer))
    except (MainstemError, MemoryError) as error:
        _answer(encode_answer(error))


def _answer(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
