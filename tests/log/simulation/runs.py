"""Runs of a seed: where power is cut, and what is looked at then."""

from __future__ import annotations

from mainstem.testing.disk import CutDisk, PowerCutError
from tests.log.simulation.history import History

STEPS = 24


def run_with_one_cut(seed: int, steps: int = STEPS) -> History:
    """A history with a power cut, or a kill, at some storage call; a second life; and a last look."""
    history = History(seed)
    history.disk.cut_power_at_call = history.chance.randint(1, 500)
    try:
        history.start(0)
        history.run(steps)
        if history.chance.random() < 0.2:
            history.end_cleanly()
    except PowerCutError:
        history.disk.cut_power_at_call = None
    if history.chance.random() < 0.8:
        history.start_after_power_cut()
    else:
        history.start_after_kill()
    history.run(steps // 3)
    history.start_after_power_cut()
    return history


def run_long(seed: int, steps: int = 150) -> History:
    """Many steps, with kills and clean ends between them, and often a full disk; then a power cut."""
    history = History(seed)
    history.full_disks = history.chance.choice((0.0, 0.2))
    history.start(0)
    history.run(steps)
    history.start_after_kill()
    history.run(steps // 5)
    history.start_after_power_cut()
    return history


def cut_everywhere(seed: int, steps: int = STEPS, every: int = 1) -> int:
    """One history, cut at each of its storage calls (or every so many); how many cuts were made."""
    history = History(seed)
    cuts = 0

    def on_call(cut: CutDisk) -> None:
        nonlocal cuts
        if history.disk.calls % every == 0:
            cuts += 1
            _live_on(history.copy(cut.copy(seed + history.disk.calls), seed + history.disk.calls))

    history.disk.on_call = on_call
    history.start(0)
    history.run(steps)
    return cuts


def _live_on(history: History) -> None:
    history.start_after_power_cut()
    history.run(2)
    history.start_after_power_cut()


def run_with_many_cuts(seed: int, lives: int = 8) -> History:
    """Short lives, cut in the middle of their starts as well."""
    history = History(seed)
    history.disk.cut_power_at_call = 400
    for _ in range(lives):
        try:
            history.start(history.model.durable)
            history.run(history.chance.randint(0, 12))
        except PowerCutError:
            history.disk.power_cut()
        else:
            history.disk.power_cut()
        history.disk.cut_power_at_call = history.chance.randint(1, 200)
    history.disk.cut_power_at_call = None
    history.start_after_power_cut()
    return history


def cut_recovery_everywhere(seed: int, steps: int = STEPS) -> int:
    """A history that ends with a power cut, and its recovery cut at each storage call; how many cuts were made."""
    history = History(seed)
    history.full_disks = history.failing_syncs = 0.0
    history.start(0)
    history.run(steps)
    history.disk.power_cut()
    cuts = 0

    def on_call(cut: CutDisk) -> None:
        nonlocal cuts
        cuts += 1
        twin = before.copy(cut.copy(seed + cuts), seed + cuts)
        twin.start_after_power_cut()

    before = history.copy(history.disk, seed)
    history.disk.on_call = on_call
    history.open()
    return cuts
