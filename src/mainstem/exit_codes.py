"""Exit codes of the commands and of the processes; scripts and the supervisor may rely on them. Documented in
``docs/reference/commands.md``.

0    done
1    refused: the request or a setting is wrong, or the log returned an error
2    the command line is wrong
3    not now: the log or a view cannot be reached, or did not get there in time; the same command may work later
4    this machine: a port or a directory in use, a full disk, something that is not installed
5    the answer is no: a view or a pipeline differs from what the log says, a check of the doctor failed
130  interrupted (ctrl-C)
141  the reader of the output closed it

A process that ends with 1 or 2 would end the same way again: the supervisor does not restart it. After any other code
it may.
"""

from __future__ import annotations

import sys
from typing import Final

from mainstem.errors import MachineError, MainstemError, UnavailableError

DONE, REFUSED, USAGE, NOT_NOW, MACHINE, NO, INTERRUPTED, OUTPUT_CLOSED = 0, 1, 2, 3, 4, 5, 130, 141
FINAL: Final = frozenset({REFUSED, USAGE})
"""With these a process says that it cannot work as it was started, however often it is tried."""


def exit_code_of(error: MainstemError) -> int:
    """The exit code for an error of our tree."""
    if isinstance(error, UnavailableError):
        return NOT_NOW
    return MACHINE if isinstance(error, MachineError) else REFUSED


def report_error(error: MainstemError) -> int:
    """Print the one line that the supervisor reads of a process that cannot go on; the exit code."""
    print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201  # the process's own voice
    return exit_code_of(error)
