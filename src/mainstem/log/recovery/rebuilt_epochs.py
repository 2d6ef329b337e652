"""The leader epochs of a partition that is opened: from their file, and from the batches where the file lacks some."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.log.partition.leader_epochs import EpochEntry, LeaderEpochs
from mainstem.log.segments.segment import Segment


def rebuild_epochs(
    entries: Sequence[EpochEntry] | None, segments: Sequence[Segment], offsets: tuple[int, int, int], epoch_max: int
) -> LeaderEpochs:
    """The epochs from the file's ``entries`` (None: it is damaged), and from the batches of the local ``segments``.

    The batches count where the entries do not reach from the first batch to the last. ``offsets`` are the log start,
    where the local segments begin if remote ones come before them (else 0), and the end of what is kept. A batch's
    epoch lies outside its checksum: one over ``epoch_max``, with which no node can have led, is ignored.
    """
    log_start, local_start, kept_end = offsets
    epochs = LeaderEpochs(entries or ())
    epochs.truncate_end(kept_end)
    last = next((segment for segment in reversed(segments) if segment.size_bytes), None)
    last_epoch = last.last_leader_epoch() if last is not None else epochs.latest
    is_behind = epochs.latest < last_epoch <= epoch_max
    is_wrong = entries is None or epochs.latest > epoch_max or _lacks_first_epoch(epochs, segments, log_start)
    if is_wrong:
        known = (entry for entry in entries or () if entry.start_offset < local_start and entry.epoch <= epoch_max)
        epochs = LeaderEpochs(known)
    if is_wrong or is_behind:
        for segment in segments:
            for epoch, start_offset in segment.leader_epochs(epoch_max):
                epochs.assign(epoch, start_offset)
    return epochs


def _lacks_first_epoch(epochs: LeaderEpochs, segments: Sequence[Segment], log_start: int) -> bool:
    """Whether the file has forgotten an epoch that the log holds again.

    It forgets with a delete-records, and the log start is durable a little later: a kill in between restores it.
    """
    if not epochs.entries or epochs.entries[0].start_offset <= log_start:
        return False
    start = max(log_start, segments[0].base_offset)
    places = (place for segment in segments for place in segment.walk_from(start))
    first = next(places, None)
    return first is not None and first.header.leader_epoch < epochs.entries[0].epoch
