"""Differences that are known and not mended yet: each row goes with its mend. Nothing here is by intention."""

from __future__ import annotations

from typing import Final

from scripts.differences import DeliberateDifference

OPEN: Final[tuple[DeliberateDifference, ...]] = ()
