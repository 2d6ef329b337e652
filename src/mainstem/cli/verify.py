"""``mainstem verify APP.py PIPELINE``: a pipeline's function, run as a batch, says what it should have written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import out, out_json, out_rows
from mainstem.cli.run import DEFAULT_MASTER
from mainstem.exit_codes import DONE, NO

if TYPE_CHECKING:
    from mainstem.spark.verdict import TopicVerdict, Verdict


def verify(
    app: Annotated[Path, typer.Argument(metavar="APP.py", help="The Python file that declares the App.")],
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")],
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    master: Annotated[str, typer.Option("--master", envvar="MAINSTEM_MASTER", help="Spark's master.")] = DEFAULT_MASTER,
    data: options.Data = options.DEFAULT_DATA,
    json: options.Json = False,
) -> int:
    """Run a pipeline as a batch over what it has read, and compare with what it wrote. Exit code 5 when they differ."""
    from mainstem.node.extras import require

    require("spark")
    from mainstem.errors import InputError
    from mainstem.node.layout import Layout
    from mainstem.pipelines.load import load_app

    declared = load_app(app)
    if pipeline not in declared.pipelines:
        known = ", ".join(declared.pipelines) or "none"
        raise InputError(f"App {declared.name} has no pipeline {pipeline!r}; it has: {known}")
    from mainstem.spark.verify_process import verify as verify_pipeline

    checkpoints = Layout(data.absolute()).checkpoints(declared.name)
    verdict = verify_pipeline(declared, pipeline, bootstrap, master=master, checkpoints=checkpoints)
    if json:
        out_json(verdict.to_json())
    else:
        _show(verdict)
    return NO if verdict.is_contradicted else DONE


def _show(verdict: Verdict) -> None:
    words = "equal" if verdict.is_equal else "different" if verdict.is_contradicted else "not contradicted"
    out(f"{words}: {verdict.pipeline} and a batch over {verdict.source}")
    if verdict.begins:
        out(f"compared from {verdict.begins}: what lay before was removed")
    for topic in verdict.topics:
        out(str(topic))
        if topic.differences:
            _show_differences(topic)
    for doubt in verdict.doubts:
        out(f"may be why: {doubt}")


def _show_differences(topic: TopicVerdict) -> None:
    out_rows([{name: value for name, value in each.to_json().items() if value != 1} for each in topic.differences])
    if topic.differing > len(topic.differences):
        out(f"these are the first {len(topic.differences)} of {topic.differing:,}")
