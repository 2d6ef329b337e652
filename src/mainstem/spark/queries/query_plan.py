"""Spark's plan of a query's last micro-batch, and its errors, short enough for a pipeline's log.

The plan is one call to the JVM, from the runner's thread.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.pipelines.control.run_log import PLAN_BYTES_MAX, cut

_LOG = logging.getLogger("mainstem.spark")
_LINES_MAX: Final = 30
_NO_PLAN: Final = "No physical plan"
_SECTION: Final = re.compile(r"^(?=== )", re.MULTILINE)
_LEFT_OUT: Final = "== Parsed"  # the analysed plan says the same, with types
_SECRET: Final = re.compile(
    r"([\w.-]{0,80}(?:password|secret|token|jaas|credential)[\w.-]{0,80})=[^,\]\n]*", re.IGNORECASE
)


def plan_of(handle: StreamingQuery) -> str | None:
    """Spark's plans of the query's last micro-batch: analysed, optimized, physical; None before the first one.

    Each is cut by itself, so that a long one does not hide the others. Values of options that name a secret are hidden.
    """
    try:
        text = str(handle._jsq.explainInternal(True))
    except (Py4JError, PySparkException) as error:
        _LOG.debug("the plan of a query cannot be read: %s", error)
        return None
    sections = [each for each in _SECTION.split(text) if each.strip() and not each.startswith(_LEFT_OUT)]
    if not sections or text.startswith(_NO_PLAN):
        return None
    shown = "\n\n".join(cut(each.strip(), PLAN_BYTES_MAX // len(sections) - 2) for each in sections)
    return _SECRET.sub(r"\1=…", shown)


def first_lines(text: str) -> str:
    """The first lines of an error of Spark, which may have hundreds."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:_LINES_MAX])
