"""An App's own Python files on the path of Spark's workers, so that ``app.py`` may import its neighbors there, too.

The file that declares the App is sent by value with each function (workers cannot import it by its name). Files beside
it are imported by name. On one machine workers get the directory itself; on a cluster they get its modules and packages
(``*.py``) as one archive, whose name says its content. Data files do not travel.

Called by the driver's thread, once for each session and before a pipeline's function is called.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from mainstem.spark.startup.environment import is_local

_FIRST_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The time of each file in an archive: the same content makes the same bytes."""


def share_with_workers(spark: SparkSession, module: ModuleType | None) -> None:
    """Make what the App's ``module`` can import importable in tasks. None: an App without a file, nothing to do.

    Raises OSError when a file beside it cannot be read.
    """
    if module is None or module.__file__ is None:
        return
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    directory = Path(module.__file__).parent
    context = spark.sparkContext
    if is_local(str(context.master)):
        # A worker joins each entry to its own directory of files: an absolute path stays as it is.
        includes = context._python_includes or []
        if str(directory) not in includes:
            context._python_includes = [*includes, str(directory)]
        return
    content = archive(directory, besides=Path(module.__file__))
    if content is not None:
        name = f"mainstem-app-{hashlib.sha256(content).hexdigest()[:16]}.zip"
        path = Path(tempfile.mkdtemp(prefix="mainstem-app-")) / name
        path.write_bytes(content)
        context.addPyFile(str(path))


def archive(directory: Path, *, besides: Path) -> bytes | None:
    """A zip archive of the modules and packages in ``directory``, without one file; None when there are none."""
    found = [path for path in _modules(directory) if path != besides]
    if not found:
        return None
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as out:
        for path in found:
            entry = zipfile.ZipInfo(path.relative_to(directory).as_posix(), _FIRST_TIME)
            out.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _modules(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.suffix == ".py" and path.is_file():
            yield path
        elif (path / "__init__.py").is_file():
            yield from _modules(path)
