"""One verification in a process of its own Spark: a session is started, the pipeline verified, the JVM ended."""

from __future__ import annotations

from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from mainstem.client.log import Log
from mainstem.errors import PipelineFailedError
from mainstem.pipelines.app import App
from mainstem.pipelines.load import module_of
from mainstem.spark.app_files import share_with_workers
from mainstem.spark.java import end_java
from mainstem.spark.options import LogOptions
from mainstem.spark.session import session
from mainstem.spark.verdict import Verdict
from mainstem.spark.verification import Verification


def verify(app: App, pipeline: str, bootstrap: str, *, master: str | None, checkpoints: Path) -> Verdict:
    """See ``Verification``; once in a process.

    Raises what ``Verification`` and ``session`` do, and PipelineFailedError when Spark's JVM is gone.
    """
    options = LogOptions(bootstrap)
    with Log(bootstrap) as log:
        log.topics()  # a log that is not there is said before Spark starts
        spark = session(f"verify {app.name}", master=master)
        share_with_workers(spark, module_of(app))
        try:
            return Verification(spark, app, pipeline, log, options, checkpoints=checkpoints).verify()
        except (Py4JError, ConnectionError) as error:
            raise PipelineFailedError(f"Spark's JVM is gone ({type(error).__name__}); try again") from error
        finally:
            spark.stop()
            end_java()
