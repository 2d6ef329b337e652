"""Verifications in a process of its own Spark: a session is started, pipelines verified one by one, the JVM ended.

What Spark's JVM and its workers print on standard error (warnings, stack traces) goes to a temporary file, which is
kept and named in the error when a pipeline fails. With ``MAINSTEM_DEBUG=1`` it stays on standard error.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from mainstem.client.log import Log
from mainstem.errors import MainstemError, PipelineFailedError
from mainstem.pipelines.app import App
from mainstem.pipelines.load import module_of
from mainstem.spark.options.options import LogOptions
from mainstem.spark.session import session
from mainstem.spark.startup.app_files import share_with_workers
from mainstem.spark.startup.java import end_java
from mainstem.spark.verification.result import VerificationResult
from mainstem.spark.verification.verification import Verification

_STDERR = 2


def verify(
    app: App, pipelines: Sequence[str], bootstrap: str, *, master: str | None, checkpoints: Path
) -> Iterator[tuple[str, VerificationResult | MainstemError]]:
    """The result for each pipeline, or why there is none (see ``Verification``); once in a process.

    Raises what ``session`` does, and PipelineFailedError when Spark's JVM is gone.
    """
    options, keeps = LogOptions(bootstrap), False
    with Log(bootstrap) as log:
        log.topics()  # a log that is not there is said before Spark starts
        with _stderr_in_a_file() as printed:
            spark = session(f"verify {app.name}", master=master)
        try:
            share_with_workers(spark, module_of(app))
            for name in pipelines:
                try:
                    verification = Verification(spark, app, name, log, options, checkpoints=checkpoints)
                    outcome: VerificationResult | MainstemError = verification.verify()
                except PipelineFailedError as error:
                    outcome = error
                    if printed is not None:
                        outcome, keeps = PipelineFailedError(f"{error}; Spark's log of it: {printed}"), True
                except MainstemError as error:
                    outcome = error
                yield name, outcome
        except (Py4JError, ConnectionError) as error:
            raise PipelineFailedError(f"Spark's JVM is gone ({type(error).__name__}); try again") from error
        finally:
            spark.stop()
            end_java()
            if printed is not None and not keeps:
                printed.unlink(missing_ok=True)


@contextmanager
def _stderr_in_a_file() -> Iterator[Path | None]:
    """Inside, standard error is a temporary file, which processes that start there keep; None: it is not redirected.

    When what is inside fails, everything that was printed follows on standard error, and the file is removed.
    """
    if os.environ.get("MAINSTEM_DEBUG"):
        yield None
        return
    descriptor, name = tempfile.mkstemp(prefix="mainstem-verify-", suffix=".log")
    sys.stderr.flush()
    real = os.dup(_STDERR)
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)
    failed = True
    try:
        yield Path(name)
        failed = False
    finally:
        sys.stderr.flush()
        os.dup2(real, _STDERR)
        os.close(real)
        if failed:
            sys.stderr.write(Path(name).read_text(errors="replace"))
            Path(name).unlink()
