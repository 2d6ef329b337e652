"""Verifications in a process of its own Spark: a session is started, pipelines verified one by one, the JVM ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from mainstem.client.log import Log
from mainstem.errors import MainstemError, PipelineFailedError
from mainstem.pipelines.app import App
from mainstem.pipelines.load import module_of
from mainstem.spark.app_files import share_with_workers
from mainstem.spark.java import end_java
from mainstem.spark.options import LogOptions
from mainstem.spark.session import session
from mainstem.spark.verdict import Verdict
from mainstem.spark.verification import Verification


def verify(
    app: App, pipelines: Sequence[str], bootstrap: str, *, master: str | None, checkpoints: Path
) -> Iterator[tuple[str, Verdict | MainstemError]]:
    """The verdict on each pipeline, or why there is none (see ``Verification``); once in a process.

    Raises what ``session`` does, and PipelineFailedError when Spark's JVM is gone.
    """
    options = LogOptions(bootstrap)
    with Log(bootstrap) as log:
        log.topics()  # a log that is not there is said before Spark starts
        spark = session(f"verify {app.name}", master=master)
        try:
            share_with_workers(spark, module_of(app))
            for name in pipelines:
                try:
                    verification = Verification(spark, app, name, log, options, checkpoints=checkpoints)
                    verdict: Verdict | MainstemError = verification.verify()
                except MainstemError as error:
                    verdict = error
                yield name, verdict
        except (Py4JError, ConnectionError) as error:
            raise PipelineFailedError(f"Spark's JVM is gone ({type(error).__name__}); try again") from error
        finally:
            spark.stop()
            end_java()
