"""Native functions as machine code in files, so that a process need not load numba for them.

numba's import takes most of a second and some 100 MB, and holds the interpreter's lock meanwhile; such a file takes
less than a millisecond and some kilobytes. The package has a file of its own beside its sources, for what the log
needs: ``make native-code`` writes it. Other code a separate process compiles once on a machine: with ``make setup``,
else when it is first needed. The file is in ``__pycache__``, or in the user's cache directory.

Invariant: only code that was compiled from this version's sources runs. The file carries the digest of both. It must
belong to this user or to root, and no other user may write to it; the package's own file is trusted as its sources are.

Only Linux on x86-64: ``kept`` and ``build`` raise OSError elsewhere, and where the system forbids a process to run code
that it has made (SELinux without execmem). Safe from any thread.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import mmap
import os
import platform
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

NativeCall: TypeAlias = Callable[[bytes, bool], Sequence[int]]
"""A function, given what is asked, and whether the call is so short that it need not let other threads run meanwhile.

What is asked are 64-bit integers, whose address the native function gets. It returns a tuple of such integers.
"""
_DIGEST_BYTES: Final = 32
_CODE_BYTES_MAX: Final = 1 << 20
_COMPILE_S_MAX: Final = 300
_PLAIN_PROCESSOR: Final = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
"""numba compiles for the processor that it runs on; with these the same sources give the same code on all of them."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptCode:
    """One function. ``compiler``: the module that writes its code to standard output; ``results``: how many integers.

    ``sources``: all that its code is made of.
    """

    name: str
    compiler: str
    sources: tuple[Path, ...]
    results: int

    @property
    def file_name(self) -> str:
        """The file's name."""
        return f"{self.name}-linux-x86_64.code"

    def kept(self) -> NativeCall | None:
        """The function, when its code is kept on this machine. Raises OSError where such code cannot run."""
        _require_machine()
        for path, is_own in self._places():
            code = None
            with suppress(OSError):
                code = self._read(path, is_own)
            if code is not None:
                return _runnable(code, self.results)
        return None

    def build(self) -> NativeCall:
        """Compile it in a process of its own, which takes seconds, and keep it. Raises OSError, SubprocessError."""
        code = self._compiled()
        function = _runnable(code, self.results)
        for directory in _directories():
            try:
                self._keep(directory / self.file_name, code)
            except OSError as error:
                _LOG.info("the compiled %s code cannot be kept in %s: %s", self.name, directory, error)
            else:
                break
        return function

    def build_own(self) -> None:
        """Compile it into the package's own file. Raises OSError, SubprocessError."""
        self._keep(self.own_file, self._compiled())

    @property
    def own_file(self) -> Path:
        """The file that comes with the package, if this code does."""
        return self.sources[0].parent / self.file_name

    def _places(self) -> Iterator[tuple[Path, bool]]:
        """Where the code may be, and whether that is the package's own file."""
        yield self.own_file, True
        for directory in _directories():
            yield directory / self.file_name, False

    def _compiled(self) -> bytes:
        _require_machine()
        if importlib.util.find_spec("numba") is None:
            raise OSError("numba is not installed")
        done = subprocess.run(
            [sys.executable, "-m", self.compiler],
            env={**os.environ, **_PLAIN_PROCESSOR},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMPILE_S_MAX,
            check=True,
        )
        return done.stdout

    def _digest(self, code: bytes) -> bytes:
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(source.read_bytes())
        digest.update(code)
        return digest.digest()

    def _read(self, path: Path, is_own: bool) -> bytes | None:
        """The code in the file; None when it is not to be trusted, or is another version's."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            is_foreign = status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if is_foreign and not is_own:
                return None
            content = file.read(_CODE_BYTES_MAX)
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return code if code and digest == self._digest(code) else None

    def _keep(self, path: Path, code: bytes) -> None:
        """A crash may leave a file with other bytes, which its digest tells: it needs no sync."""
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=self.file_name)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(self._digest(code) + code)
                os.fchmod(file.fileno(), 0o644)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def _require_machine() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise OSError(f"no kept code for {sys.platform} on {platform.machine()}")


def _directories() -> Iterator[Path]:
    yield Path(__file__).parent / "__pycache__"
    with suppress(RuntimeError):  # this user has no home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem"


def _runnable(code: bytes, results_count: int) -> NativeCall:
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
    results_type = ctypes.c_int64 * results_count

    def call(asked: bytes, is_short: bool) -> Sequence[int]:
        results = results_type()
        (holding if is_short else releasing)(results, None, asked)
        return results[:]

    return call
