"""The native walk over a producer's records as machine code in a file, so that a process need not load numba for it.

numba's import takes most of a second and some 100 MB, and holds the interpreter's lock meanwhile; this file takes less
than a millisecond and 7 kB. A separate process compiles it once on a machine (``native_check``): with ``make setup``,
else when a log first needs it. The file is in ``__pycache__`` beside the source, or in the user's cache directory.

Invariant: only code that was compiled from this version's sources runs. The file carries the digest of both. It must
belong to this user or to root, and no other user may write to it.

Only Linux on x86-64: ``kept_walk`` and ``build_walk`` raise OSError elsewhere, and where the system forbids a process
to run code that it has made (SELinux without execmem). Safe from any thread.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import mmap
import os
import platform
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

ASKED: Final = struct.Struct("=9q")
"""The walk's parameters: begin and end address, where to note how many records that break a rule (two numbers), record
count, base timestamp, whether each record needs a key, the oldest timestamp and the newest."""
RESULTS: Final = 4
"""How it ended, records walked, the greatest timestamp, records that break a rule."""
Walk: TypeAlias = Callable[[bytes, bool], Sequence[int]]
"""``native_check.walk_batch``, given what is asked, and whether the walk is so short that it need not let other threads
run meanwhile."""
_COMPILER: Final = "mainstem.record.native.native_check"
_SOURCES: Final = ("native_check.py", "native_walk.py", "native_kernel.py", "../constants.py")
_NAME: Final = "walk-linux-x86_64.code"
_DIGEST_BYTES: Final = 32
_CODE_BYTES_MAX: Final = 1 << 20
_COMPILE_S_MAX: Final = 300
_LOG: Final = logging.getLogger(__name__)


def kept_walk() -> Walk | None:
    """The walk, when its code is kept on this machine. Raises OSError where such code cannot run."""
    _require_machine()
    for directory in _directories():
        code = None
        with suppress(OSError):
            code = _read(directory / _NAME)
        if code is not None:
            return _runnable(code)
    return None


def build_walk() -> Walk:
    """Compile it in a process of its own, which takes seconds, and keep it. Raises OSError, SubprocessError."""
    _require_machine()
    done = subprocess.run(
        [sys.executable, "-m", _COMPILER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_COMPILE_S_MAX,
        check=True,
    )
    walk = _runnable(done.stdout)
    for directory in _directories():
        try:
            _keep(directory, done.stdout)
        except OSError as error:
            _LOG.info("the compiled walk over records cannot be kept in %s: %s", directory, error)
        else:
            break
    return walk


def _require_machine() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise OSError(f"no kept code for {sys.platform} on {platform.machine()}")


def _directories() -> Iterator[Path]:
    yield Path(__file__).parent / "__pycache__"
    with suppress(RuntimeError):  # this user has no home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem"


def _digest(code: bytes) -> bytes:
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    digest.update(code)
    return digest.digest()


def _read(path: Path) -> bytes | None:
    """The code in the file; None when it is not to be trusted, or is another version's."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
        content = file.read(_CODE_BYTES_MAX)
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if code and digest == _digest(code) else None


def _keep(directory: Path, code: bytes) -> None:
    """A crash may leave a file with other bytes, which its digest tells: it needs no sync."""
    directory.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=directory, prefix=_NAME)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(_digest(code) + code)
            os.fchmod(file.fileno(), 0o644)
        Path(name).replace(directory / _NAME)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _runnable(code: bytes) -> Walk:
    """The code in memory that may be run and no longer written."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, len(code), mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "no memory for machine code")
    ctypes.memmove(address, code, len(code))
    if libc.mprotect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "this process may not run code that it has made")
    signature = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    releasing, holding = ctypes.CFUNCTYPE(*signature)(address), ctypes.PYFUNCTYPE(*signature)(address)
    results_type = ctypes.c_int64 * RESULTS

    def walk(asked: bytes, is_short: bool) -> Sequence[int]:
        results = results_type()
        (holding if is_short else releasing)(results, None, asked)
        return results[:]

    return walk
