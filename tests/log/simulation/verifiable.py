"""Histories of a verifiable topic: after every advance of the tree, its leaves continue all that was signed before."""

from __future__ import annotations

import itertools

from mainstem.errors import StorageError
from mainstem.testing.disk import PowerCutError
from mainstem.tlog.leaf import decode_leaf
from tests.log.simulation.history import History


class VerifiableHistory(History):
    """``signed`` are the entries of the greatest tree that a checkpoint could have named."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.configs["mainstem.verifiable"] = "true"
        self.signed: list[bytes] = []
        self.keeps = self.chance.choice((0.0, 0.05, 0.5))

    def start(self, must_keep: int) -> None:
        super().start(must_keep)
        self.advance_tree()
        tree = self.log.tree
        assert tree is not None
        assert tree.failure is None, tree.failure
        assert tree.head is not None
        assert tree.head.size >= len(self.signed), "a checkpoint named what is not on the disk"

    def advance_tree(self) -> None:
        """As the node does every second, or when a checkpoint is asked for: then the head may be signed."""
        tree = self.log.tree
        assert tree is not None
        tree.advance(keep=self.chance.random() < self.keeps)
        head = tree.head
        assert head is not None, tree.failure
        assert head.next_offset <= self.log.recovery_point, "a leaf of what is not durable"
        entries = tree._files.entries(0, head.size)
        assert entries[: len(self.signed)] == self.signed, "the history that was signed has changed"
        assert tree._files.root(head.size) == head.root
        leaves = [decode_leaf(entry) for entry in entries]
        assert all(one.last_offset < other.base_offset for one, other in itertools.pairwise(leaves))
        self.signed = entries

    def run(self, steps: int) -> None:
        for _ in range(steps):
            super().run(1)
            if self.chance.random() < 0.3:
                self.disk.capacity_bytes = None
                if self.chance.random() < self.full_disks:
                    self.disk.capacity_bytes = self.disk.used_bytes() + self.chance.choice((0, 50, 300))
                try:
                    self.advance_tree()
                except StorageError as error:
                    self._trace(f"advance_tree: {error}")
                self.disk.capacity_bytes = None


def run_verifiable(seed: int, steps: int = 24) -> VerifiableHistory:
    """A history with a power cut, or a kill, at some storage call; a second life; and a last look."""
    history = VerifiableHistory(seed)
    history.disk.cut_power_at_call = history.chance.randint(1, 700)
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
