"""A virtual environment that has what ``pip install mainstem`` installs, and nothing else.

``make_environment`` makes it in a second and without an index: it links the files of the installed distributions that
Mainstem requires without an extra. ``python -m tests.bare.environment DIR`` installs it with pip instead, and prints
its size; MAINSTEM_BARE_PYTHON=DIR/bin/python lets the tests use that one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
_INSTALL_S_MAX = 600


def bare_distributions() -> dict[str, Distribution]:
    """Mainstem's own distribution and those that it requires without an extra, by name."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement("mainstem")]
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        found[requirement.name] = distribution(requirement.name)
        for text in found[requirement.name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
            ):
                wanted.append(needed)
    return found


def installed_bytes() -> int:
    """The size of all files, with the bytecode that pip compiles.

    Of a checkout the caches do not count, which hold code of every kernel and Python; its bytecode is as large as it.
    """
    others = [each for name, each in bare_distributions().items() if name != "mainstem"]
    files = {path for each in others for path in _files(each)}
    own = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    bytecode = [path for path in own if path.suffix == ".py"]
    return sum(path.stat().st_size for path in [*files, *own, *bytecode])


def make_environment(directory: Path) -> Path:
    """Make the environment; its interpreter."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(directory)
    packages = next(directory.glob("lib/python3*/site-packages"))
    for name, each in bare_distributions().items():
        for path in [] if name == "mainstem" else _files(each):
            link = packages / path.relative_to(Path(str(each.locate_file(""))).resolve())
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    (packages / "mainstem.pth").write_text(f"{ROOT / 'src'}\n")
    return directory / "bin" / "python"


def _files(installed: Distribution) -> Iterator[Path]:
    """The files of a distribution below site-packages."""
    packages = Path(str(installed.locate_file(""))).resolve()
    for file in installed.files or ():
        path = Path(str(file.locate())).resolve()
        if path.is_file() and path.is_relative_to(packages):
            yield path


def _install(directory: Path) -> None:
    venv.EnvBuilder(symlinks=True, with_pip=True).create(directory)
    lock = (ROOT / "requirements" / "lock.txt").read_text()
    versions = re.findall(r"^(\S+==[^ ;\\]+)", lock, re.MULTILINE)
    constraints = directory / "constraints.txt"
    constraints.write_text("\n".join(versions))
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
    subprocess.run([*pip, str(ROOT)], check=True, timeout=_INSTALL_S_MAX)
    size = sum(path.stat().st_size for path in next(directory.glob("lib/python3*/site-packages")).rglob("*"))
    pip_size = sum(path.stat().st_size for path in directory.glob("lib/python3*/site-packages/pip/**/*"))
    sys.stdout.write(f"{(size - pip_size) / 1e6:.0f} MB, and pip's own {pip_size / 1e6:.0f} MB\n")


if __name__ == "__main__":
    _install(Path(sys.argv[1]))
