"""Flipped bits: one in any kind of file, while the node is down. What the start and all later answers may then be."""

from __future__ import annotations

from pathlib import PurePath

from mainstem.errors import CorruptBatchError
from mainstem.record.header import iter_headers
from tests.log.simulation.history import History
from tests.log.simulation.model import Batch, parse
from tests.log.support import DATA, DIRECTORY, read_committed

DERIVED = (
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    ".seal",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "/mainstem-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)


def flip_derived(seed: int, kind: str, steps: int = 40) -> bool:
    """Flip a bit in a file that is worked out from the log; whether there was one of that kind.

    All answers must be as without; only a log start that the checkpoint alone knew may be forgotten.
    """
    history = _history_that_ended(seed, steps)
    paths = [path for path in _files(history) if str(path).endswith(kind) and history.disk.content(path)]
    if not paths:
        return False
    _flip(history, history.chance.choice(paths))
    if kind == "/mainstem-checkpoint":
        history.model.durable_log_start = 0
    history.start(history.model.log_end)
    history.run(12)
    history.start_after_power_cut()
    return True


def flip_log(seed: int, steps: int = 40) -> bool:
    """Flip a bit in a batch; whether there was one.

    Before the recovery point only that batch is lost, and reads of it are refused; past it, the log may be cut there.
    """
    history = _history_that_ended(seed, steps)
    model, disk = history.model, history.disk
    paths = [path for path in _files(history) if path.suffix == ".log" and disk.content(path)]
    if not paths:
        return False
    path = history.chance.choice(paths)
    content = disk.content(path)
    position = _flip(history, path)
    (header,) = (each for at, each in iter_headers(content) if at <= position < at + each.size_bytes)
    damaged = next(each for each in model.batches if each.base_offset == header.base_offset)
    history.open()
    log_start = history.log.log_start_offset
    before = [each for each in model.batches if log_start < each.next_offset <= damaged.base_offset]
    if damaged.base_offset < model.checkpointed or not _was_cut(history, before):
        _check_all_but(history, damaged)
    return True


def _was_cut(history: History, before: list[Batch]) -> bool:
    """Whether the log holds the batches before the damage, and no others."""
    try:
        return history.read_everything() == before
    except CorruptBatchError:
        return False


def _history_that_ended(seed: int, steps: int) -> History:
    history = History(seed)
    history.failing_syncs = 0.0
    history.start(0)
    history.run(steps)
    if history.chance.random() < 0.5:
        history.end_cleanly()
    history.disk.kill()
    return history


def _files(history: History) -> list[PurePath]:
    disk = history.disk
    return [DIRECTORY / name for name in disk.list(DIRECTORY)] + [
        DATA / name for name in disk.list(DATA) if name.endswith("-checkpoint")
    ]


def _flip(history: History, path: PurePath) -> int:
    position = history.chance.randrange(len(history.disk.content(path)))
    history.disk.flip_bit(path, position, history.chance.randrange(8))
    return position


def _check_all_but(history: History, damaged: Batch) -> None:
    """Every other batch is read as it was appended; of the damaged one nothing, or all of it as it was."""
    log, model = history.log, history.model
    may_be_read = set(model.committed_values(0, model.log_end))
    for each in model.batches:
        offset = max(each.base_offset, log.log_start_offset)
        if each.next_offset <= log.log_start_offset or offset >= log.high_watermark:
            continue
        try:
            found = parse(log.read(offset, 1).buffers)
        except CorruptBatchError:
            assert each == damaged, f"{each} cannot be read, but {damaged} is damaged"
            continue
        assert found == [each], f"{found} instead of {each}"
        if damaged.is_commit is None and log.last_stable_offset > offset:
            try:
                committed = set(read_committed(log, offset, 1))
            except CorruptBatchError:
                continue
            assert committed <= may_be_read
