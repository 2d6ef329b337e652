"""One clear error for each way in which a user's file may hold no App."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.errors import DefinitionError
from mainstem.pipelines.load import load_app, module_of

HEAD = "import mainstem as ms\n"


def _write(directory: Path, text: str, name: str = "program.py") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_the_app_of_a_file_is_found(tmp_path: Path) -> None:
    app = load_app(_write(tmp_path, HEAD + 'app = ms.App("flights")\n'))
    assert app.name == "flights"


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + 'app = ms.App("flights")\n')
    assert load_app(path) is load_app(path)


def test_the_module_of_an_app_is_known(tmp_path: Path) -> None:
    app = load_app(_write(tmp_path, HEAD + 'app = ms.App("flights")\nMARK = 7\n'))
    module = module_of(app)
    assert module is not None
    assert module.MARK == 7


def test_a_file_may_import_its_neighbors(tmp_path: Path) -> None:
    _write(tmp_path, 'NAME = "from-the-neighbor"\n', "neighbor_of_load_test.py")
    path = _write(tmp_path, HEAD + "from neighbor_of_load_test import NAME\napp = ms.App(NAME)\n")
    assert load_app(path).name == "from-the-neighbor"


def test_one_app_of_several_is_chosen_by_name(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + 'one = ms.App("one")\ntwo = ms.App("two")\n')
    assert load_app(f"{path}:two").name == "two"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "declares no App"),
        (HEAD + 'a = ms.App("a")\nb = ms.App("b")\n', "declares several Apps"),
        ("def broken(:\n", r"program\.py:1: SyntaxError: [^()]*('\('[^()]*)?$"),
        ("\nimport nothing_of_that_name\n", r"program\.py:2: ModuleNotFoundError"),
        (HEAD + 'app = ms.App("a")\n\napp.topic("a b")\n', r"program\.py:4: invalid topic name 'a b'"),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        load_app(_write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="no such file"):
        load_app(tmp_path / "none.py")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="not a Python file"):
        load_app(_write(tmp_path, "", "program.txt"))
