"""What is not installed is said before anything starts, with what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mainstem import extras
from mainstem.errors import MissingDependencyError


def test_what_is_installed_is_not_missing() -> None:
    assert [name for name in extras.EXTRAS if extras.missing_modules(name)] == []


def test_a_missing_extra_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "gateway", ("fastapi", "no_such_package.part"))
    with pytest.raises(MissingDependencyError, match=r"no_such_package.part .* pip install 'mainstem\[gateway\]', or"):
        extras.require("spark", "gateway", otherwise=", or do without")


_LOADED = "import sys, pyarrow as pa; print(pa.array(['a']).to_pylist(), 'pandas' in sys.modules)"


def _said(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(("before", "is_loaded"), [("", True), ("import_arrow_alone()", False)])
def test_an_array_of_pythons_values_loads_no_pandas(before: str, is_loaded: bool) -> None:
    assert _said(f"from mainstem.extras import import_arrow_alone\n{before}\n{_LOADED}") == f"['a'] {is_loaded}"


def test_a_data_frame_is_still_made() -> None:
    program = (
        "from mainstem.extras import import_arrow_alone\nimport_arrow_alone()\n"
        "import pyarrow as pa\nframe = pa.table({'a': [1]}).to_pandas()\n"
        "print(type(frame).__name__, pa.array(frame['a']).to_pylist())"
    )
    assert _said(program) == "DataFrame [1]"


def test_pandas_that_is_loaded_stays() -> None:
    program = (
        "import sys, pandas\nfrom mainstem.extras import import_arrow_alone\nimport_arrow_alone()\n"
        "print(sys.modules['pandas'] is pandas)"
    )
    assert _said(program) == "True"


def test_what_reads_files_and_lakes_loads_no_pandas() -> None:
    program = (
        "import sys\nfrom mainstem.extras import import_arrow_alone\nimport_arrow_alone()\n"
        "import mainstem.connectors.files, mainstem.views.stores.lake.lake\nprint('pandas' in sys.modules)"
    )
    assert _said(program) == "False"
