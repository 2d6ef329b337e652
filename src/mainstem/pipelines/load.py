"""``load_app``: the App that a user's file declares, or one clear error for each way to fail.

The file is imported like a script: under its own name, with its directory on ``sys.path`` so that it can import its
neighbors. A file is imported once; a second call gives the same App.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from mainstem.errors import DefinitionError, MainstemError
from mainstem.pipelines.app import App
from mainstem.pipelines.udf_types import udf_types_without_session


def load_app(path: Path | str) -> App:
    """Import ``path`` and return the one App in it; ``FILE.py:NAME`` chooses where there are several.

    Raises DefinitionError, which names the file and the line.
    """
    file, _, wanted = str(path).partition(".py:")
    source = Path(f"{file}.py" if wanted else file)
    if source.is_dir():
        raise DefinitionError(f"{source} is a directory; name the Python file in it that declares your App")
    if not source.is_file():
        raise DefinitionError(f"{source}: no such file; name the Python file that declares your App")
    if source.suffix != ".py":
        raise DefinitionError(f"{source}: not a Python file (its name must end in .py)")
    return _choose(_import(source.resolve()), source, wanted)


def module_of(app: App) -> ModuleType | None:
    """The module that ``load_app`` imported ``app`` from; None for an App that was made in another way."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_PREFIX) and any(value is app for value in vars(module).values()):
            return module
    return None


_PREFIX = "mainstem_app_"


def _import(source: Path) -> ModuleType:
    name = _PREFIX + source.stem.replace("-", "_")
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(source):
        return loaded
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before the code runs: dataclasses look their module up to read annotations
    if str(source.parent) not in sys.path:
        sys.path.insert(0, str(source.parent))
    try:
        with udf_types_without_session():
            spec.loader.exec_module(module)
    except MainstemError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:  # a file that ends the process would end this one without a word
        del sys.modules[name]
        # The line that a SyntaxError names in its text is said already.
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise DefinitionError(f"{_failing_line(source, error)}: {type(error).__name__}: {said}") from error
    return module


def _failing_line(source: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{Path(error.filename or source).name}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(source)]
    return f"{source.name}:{frames[-1].lineno}" if frames else source.name


def _choose(module: ModuleType, source: Path, wanted: str) -> App:
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    if wanted:
        if wanted not in apps:
            raise DefinitionError(f"{source}: has no App named {wanted!r}; it has: {', '.join(apps) or 'none'}")
        return apps[wanted]
    if not apps:
        raise DefinitionError(f'{source}: declares no App; start with app = mainstem.App("name")')
    if len({id(app) for app in apps.values()}) > 1:
        raise DefinitionError(f"{source}: declares several Apps ({', '.join(apps)}); choose with {source}:NAME")
    return next(iter(apps.values()))
