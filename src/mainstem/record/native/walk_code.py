"""The native walk over a producer's records, as machine code that is kept on the machine (``kept_code``)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from mainstem.record.native.kept_code import KeptCode

ASKED: Final = struct.Struct("=9q")
"""The walk's parameters: begin and end address, where to note how many records that break a rule (two numbers), record
count, base timestamp, whether each record needs a key, the oldest timestamp and the newest."""
RESULTS: Final = 4
"""How it ended, records walked, the greatest timestamp, records that break a rule."""
_HERE: Final = Path(__file__).parent
WALK: Final = KeptCode(
    name="walk",
    compiler="mainstem.record.native.native_check",
    sources=(
        _HERE / "native_check.py",
        _HERE / "native_walk.py",
        _HERE / "native_kernel.py",
        _HERE.parent / "constants.py",
    ),
    results=RESULTS,
)
