"""Compile the package's ``LocalFiles.java`` into the jar beside it: ``make spark-jar``. It takes a JDK 17."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from mainstem.spark.startup.java import find_java
from mainstem.spark.startup.local_files import JAR

SOURCE = JAR.with_name("LocalFiles.java")
_RELEASE = "17"
_COMPILE_TIMEOUT_S = 120


def build(jar: Path) -> None:
    """Write the jar: the same bytes each time, by the same version of the compiler.

    Raises OSError without a compiler, CalledProcessError when it refuses the source, and RuntimeError for another
    version of Java, whose compiler may make other bytes.
    """
    java = find_java()
    if not java.version.startswith(f"{_RELEASE}."):
        raise RuntimeError(f"Java {java.version} is in use; set JAVA_HOME to a JDK {_RELEASE}")
    classes = sorted(Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar"))
    with tempfile.TemporaryDirectory() as directory:
        argv = [str(java.home / "bin" / "javac"), "--release", _RELEASE, "-d", directory]
        argv += ["-classpath", ":".join(map(str, classes)), str(SOURCE)]
        subprocess.run(argv, check=True, timeout=_COMPILE_TIMEOUT_S)
        with zipfile.ZipFile(jar, "w") as archive:
            for path in sorted(Path(directory).rglob("*.class")):
                # Without a time of its own, an entry has the first that the format knows.
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(directory))), path.read_bytes())


if __name__ == "__main__":
    build(JAR)
