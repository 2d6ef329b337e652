"""The log process, which kills itself (SIGKILL) at a call of the disk: ``python -m tests.broker.killing_process``.

The environment's ``KILL_AT`` says which: ``before`` or ``after``, the call's name, and how the path ends that it is
about (of a rename, the new one). Without it this is the log process as it is.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import PurePath
from typing import Any

from mainstem.broker.process import main
from mainstem.log.files.disk import OsDisk


def arm(when: str, call: str, suffix: str) -> None:
    """Let the process die at that call."""
    original = getattr(OsDisk, call)

    def killed(disk: OsDisk, *paths: PurePath) -> Any:
        is_meant = str(paths[-1]).endswith(suffix)
        if is_meant and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(disk, *paths)
        if is_meant:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(OsDisk, call, killed)


if __name__ == "__main__":
    if "KILL_AT" in os.environ:
        arm(*os.environ["KILL_AT"].split())
    sys.exit(main())
