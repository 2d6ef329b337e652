"""The machine code of the walk over records: where it is kept, whose it must be, and what serves without it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mainstem.record.native import kept_code
from mainstem.record.native.walk_code import WALK

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="machine code is kept on Linux on x86-64"
)
_PR_SET_MDWE = 65
"""prctl: memory that was written may not be run, as with SELinux without execmem. Linux 6.3 and later."""
_CHECK = """
import sys
from mainstem.record import record_check
from mainstem.record.header import read_header
from mainstem.record.record_check import RecordRules, check_records, is_native_loaded, load_kept, load_native
from mainstem.record.writer import NewRecord, build_batch

def check(count):
    batch = build_batch([NewRecord(None, b"v")] * count)
    check_records(read_header(batch), memoryview(batch)[61:], RecordRules())

def heavy():
    return {"numba", "numpy", "llvmlite"} & set(sys.modules)
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two directories of this test's own; the package has no code."""
    found = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(kept_code, "_directories", lambda: iter(found))
    monkeypatch.setattr(kept_code.KeptCode, "own_file", tmp_path / "own" / WALK.file_name)
    return found


@pytest.fixture(scope="module")
def code() -> bytes:
    """The file that comes with the package."""
    return WALK.own_file.read_bytes()


def test_the_package_has_the_code_of_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_code, "_directories", lambda: iter(()))
    assert WALK.kept() is not None, "run make native-code, and commit the file"


def test_the_packages_own_code_is_trusted_as_its_sources_are(places: list[Path], code: bytes) -> None:
    own = WALK.own_file
    own.parent.mkdir()
    own.write_bytes(code)
    own.chmod(0o666)
    assert WALK.kept() is not None
    own.write_bytes(code[:-1])
    assert WALK.kept() is None


def test_a_process_checks_any_number_of_records_without_numba(code: bytes) -> None:
    run(
        "load_kept(); assert is_native_loaded()",
        "check(1); check(300); check(20_000)",
        "assert not heavy(), heavy()",
    )


def test_few_records_are_walked_before_any_code_is_loaded() -> None:
    run("check(10_000); assert not is_native_loaded() and not heavy(), heavy()")


def test_numba_serves_on_another_kind_of_machine() -> None:
    run(
        "import platform; platform.machine = lambda: 'another'",
        "load_kept(); assert not is_native_loaded()",
        "load_native(); assert is_native_loaded() and 'numba' in sys.modules",
        "check(300); check(20_000)",
    )


def test_the_plain_reader_serves_where_no_code_that_a_process_made_may_run(code: bytes) -> None:
    run(
        "import ctypes",
        f"assert ctypes.CDLL(None).prctl({_PR_SET_MDWE}, 1, 0, 0, 0) == 0",
        "load_kept(); assert not is_native_loaded()",
        "check(300); check(20_000); assert not is_native_loaded()",
    )


def test_what_one_process_compiled_the_next_one_loads(places: list[Path], code: bytes) -> None:
    assert WALK.kept() is None
    WALK.build()
    assert [path.name for path in places[0].iterdir()] == [WALK.file_name]
    assert (places[0] / WALK.file_name).read_bytes() == code, "the same sources give the same code"
    assert WALK.kept() is not None


def test_the_code_is_the_same_whatever_the_processor(
    places: list[Path], code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "skylake-avx512")
    WALK.build()
    assert (places[0] / WALK.file_name).read_bytes() == code


def test_it_goes_where_it_may_be_written(places: list[Path]) -> None:
    places[0].write_text("no directory")
    WALK.build()
    assert (places[1] / WALK.file_name).is_file()
    assert WALK.kept() is not None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o664),
        lambda path: path.chmod(0o646),
        lambda path: os.truncate(path, path.stat().st_size - 1),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    ],
    ids=["the group may write it", "all may write it", "cut off", "empty", "another digest", "other code"],
)
def test_code_that_is_not_to_be_trusted_does_not_run(spoil: object, places: list[Path], code: bytes) -> None:
    places[0].mkdir()
    path = places[0] / WALK.file_name
    path.write_bytes(code)
    path.chmod(0o644)
    assert WALK.kept() is not None
    assert callable(spoil)
    spoil(path)
    assert WALK.kept() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user, which root may do")
def test_the_code_of_another_user_does_not_run(places: list[Path], code: bytes) -> None:
    places[0].mkdir()
    path = places[0] / WALK.file_name
    path.write_bytes(code)
    path.chmod(0o644)
    os.chown(path, 12345, 12345)
    assert WALK.kept() is None


def test_another_version_of_the_sources_does_not_take_it(tmp_path: Path, code: bytes) -> None:
    package = tmp_path / "mainstem"
    shutil.copytree(Path(kept_code.__file__).parents[2], package)
    source = package / "record" / "native" / "native_walk.py"
    program = "from mainstem.record.native.walk_code import WALK; print(WALK.kept() is not None)"

    def kept() -> str:
        home = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=os.environ | home,
        ).stdout.strip()

    assert (package / "record" / "native" / WALK.file_name).read_bytes() == code
    shutil.rmtree(package / "record" / "native" / "__pycache__", ignore_errors=True)
    assert kept() == "True"
    source.write_text(source.read_text() + "\n# changed\n")
    assert kept() == "False"


def run(*lines: str) -> None:
    program = "\n".join([_CHECK, *lines])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
