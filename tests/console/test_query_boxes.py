"""The boxes that ask views."""

from __future__ import annotations

from mainstem.console.query_boxes.registry import BOXES
from mainstem.pipelines.kinds import KINDS


def test_every_kind_of_view_has_a_box() -> None:
    assert set(BOXES) == {kind.kind for kind in KINDS}
