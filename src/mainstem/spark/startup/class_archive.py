"""Java's class-data sharing for Spark: its 20,000 classes parsed and verified once, mapped at every later start.

``python -m mainstem.spark.startup.class_archive`` builds the archive, in the user's cache directory, by running a
small App through a log of its own once; sessions on one machine use it when it is there. It belongs to one version of
Spark, at one place, on one Java: another has another file. A JVM to which the file does not fit goes on without it.
No JVM looks for damage in the middle of the file, so the file gets its name only when its bytes are durable.

It takes about 40 seconds and 180 MB, and halves the time until the first micro-batch. Each virtual environment has an
archive of its own: the cache directory keeps those that sessions used last, and a new one takes the place of the rest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from mainstem.durable_files import put_in_place
from mainstem.errors import MachineError
from mainstem.spark.startup.java import Java, find_java

_BUILD_TIMEOUT_S = 300
_BROKER_TIMEOUT_S = 30
_KEPT = 4
_ABANDONED_AFTER_S = 3600
"""A build takes minutes at most: a directory of this age belongs to one that was killed."""
_BUILDING = "MAINSTEM_BUILDING_CLASS_ARCHIVE"
"""The environment variable by which the training's process knows where to write the archive."""
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
_TRAINING_APP = """
from pyspark.sql import functions as sf
import mainstem as ms

app = ms.App("training")
orders = app.topic("orders", schema="id STRING, item STRING, amount DOUBLE, at TIMESTAMP, n BIGINT", key="id")
items = app.topic("items", schema="item STRING, name STRING", key="item", compacted=True)

@app.pipeline(orders, items.table(), into="orders-named", key="id")
def name(orders, items):
    return orders.join(items, "item", "left")

@app.pipeline("orders-named", into="totals", key="item", mode="update")
def total(orders):
    known = orders.where("item IS NOT NULL").groupBy("item")
    return known.agg(sf.avg("amount").alias("mean"), sf.count("n").alias("n"))
"""


def archive_path(java: Java) -> Path:
    """Where the archive of this Spark on this Java is, or would be."""
    import pyspark

    place = hashlib.sha256(f"{Path(pyspark.__file__).parent}:{java.home}".encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem"
    return cache / f"spark-{pyspark.__version__}-java-{java.version}-{place}.jsa"


def java_options(java: Java) -> list[str]:
    """The JVM's options that make use of the archive; none when there is none."""
    building = os.environ.get(_BUILDING)
    if building:
        return [f"-XX:ArchiveClassesAtExit={building}", *_QUIET[1:]]
    path = archive_path(java)
    if not path.is_file():
        return []
    _note_use(path)
    return [f"-XX:SharedArchiveFile={path}", *_QUIET]


def build() -> Path:
    """Build the archive if it is not there; returns its path. Raises MachineError when that fails."""
    path = archive_path(find_java())
    if path.is_file():
        _note_use(path)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mainstem-archive-", dir=path.parent) as directory:
        made = Path(directory) / path.name
        _train(Path(directory), made)
        if not made.is_file():
            raise MachineError(f"Java did not write the class archive {made}")
        put_in_place(made, path)
    with suppress(FileNotFoundError):  # another build removes them, too
        _remove_unused(path.parent)
    return path


def is_training() -> bool:
    """Whether this process is the training of an archive."""
    return _BUILDING in os.environ


def _note_use(archive: Path) -> None:
    """A file's time is when it was last used: ``_remove_unused`` goes by it."""
    with suppress(OSError):  # a cache that only root writes, as in a container's image: nothing is removed there
        os.utime(archive)


def _remove_unused(cache: Path) -> None:
    """Keep the archives used last. A JVM that runs keeps what it has mapped."""
    last_used = {path: path.stat().st_mtime for path in cache.glob("spark-*-java-*.jsa")}
    for path in sorted(last_used, key=last_used.__getitem__, reverse=True)[_KEPT:]:
        path.unlink(missing_ok=True)
    for directory in cache.glob("mainstem-archive-*"):
        if time.time() - directory.stat().st_mtime > _ABANDONED_AFTER_S:
            shutil.rmtree(directory, ignore_errors=True)


def _train(directory: Path, made: Path) -> None:
    app = directory / "training.py"
    app.write_text(_TRAINING_APP)
    argv = [sys.executable, "-m", "mainstem.broker.process", "--data", str(directory / "log")]
    broker = subprocess.Popen(
        [*argv, "--listen", "127.0.0.1:0", "--stop-with-parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        bootstrap = broker.stdout.readline().removeprefix("ready: kafka ").split()[0]
        _fill(bootstrap, str(app))
        argv = [sys.executable, "-m", "mainstem.spark.process", "--app", str(app), "--bootstrap", bootstrap]
        environment = {**os.environ, _BUILDING: str(made)}
        argv += ["--checkpoints", str(directory / "checkpoints"), "--once"]
        subprocess.run(argv, env=environment, check=True, timeout=_BUILD_TIMEOUT_S, capture_output=True)
    except (IndexError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        raise MachineError(f"the class archive cannot be built: {error} {said.decode(errors='replace')}") from error
    finally:
        broker.kill()
        broker.wait(_BROKER_TIMEOUT_S)


def _fill(bootstrap: str, app_file: str) -> None:
    from mainstem.client.log import Log
    from mainstem.pipelines.deploy import deploy
    from mainstem.pipelines.load import load_app

    with Log(bootstrap) as log:
        deploy(load_app(app_file), log)
        for number in range(100):
            item = f"item-{number % 7}"
            log.append("items", {"item": item, "name": item.upper()}, key=item)
            row = {"id": str(number), "item": item, "amount": number / 3, "at": "2013-01-01T10:00:00Z", "n": number}
            log.append("orders", row, key=str(number))


def main() -> int:
    """Build it, and say where it is."""
    try:
        print(f"class archive: {build()}")  # noqa: T201 - a command's output
    except (MachineError, OSError) as error:  # a full disk, too
        print(f"mainstem: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
