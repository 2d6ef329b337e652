"""Exit codes: what a script may rely on. Documented in ``docs/commands.md``.

0    done
1    refused: the request is wrong, or the log said no
2    the command line is wrong
3    not now: the log or a view cannot be reached, or did not get there in time; the same command may work later
4    this machine: a port or a directory in use, a full disk, something that is not installed
5    the answer is no: a view differs from its log, a check of the doctor failed
130  interrupted (ctrl-C)
141  whoever read the output went away
"""

from __future__ import annotations

from mainstem.errors import MachineError, MainstemError, UnavailableError

DONE, REFUSED, USAGE, NOT_NOW, MACHINE, NO, INTERRUPTED, OUTPUT_CLOSED = 0, 1, 2, 3, 4, 5, 130, 141


def exit_code_of(error: MainstemError) -> int:
    """The exit code for an error of our tree."""
    if isinstance(error, UnavailableError):
        return NOT_NOW
    return MACHINE if isinstance(error, MachineError) else REFUSED
