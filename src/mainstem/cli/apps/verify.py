"""``mainstem verify APP.py [PIPELINE]``: a pipeline's function, run as a batch, says what it should have written.

Without a name all pipelines and views of the App are verified: one table, one exit code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mainstem.cli import options
from mainstem.cli.apps.run import DEFAULT_MASTER
from mainstem.cli.output import out, out_json, out_rows
from mainstem.exit_codes import DONE, NO, exit_code_of

if TYPE_CHECKING:
    from mainstem.errors import MainstemError
    from mainstem.pipelines.app import App
    from mainstem.spark.verification.result import TopicVerification, VerificationResult

EQUAL: Final = "equal"
DIFFERENT: Final = "different"
NOT_VERIFIED: Final = "not verified"


def verify(
    app: Annotated[Path, typer.Argument(metavar="APP.py", help="The Python file that declares the App.")],
    pipeline: Annotated[
        str | None, typer.Argument(metavar="PIPELINE", help="One pipeline; default: all, and the views.")
    ] = None,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    master: Annotated[str, typer.Option("--master", envvar="MAINSTEM_MASTER", help="Spark's master.")] = DEFAULT_MASTER,
    data: options.Data = options.DEFAULT_DATA,
    url: options.Url = options.DEFAULT_URL,
    json: options.Json = False,
) -> int:
    """Compare what pipelines wrote with a batch over what they read, and views with a replay. Exit code 5: they differ.

    Without PIPELINE all pipelines are verified in one Spark session, and all views by the host behind --url.
    """
    from mainstem.extras import require

    require("spark")
    from mainstem.errors import InputError, MainstemError
    from mainstem.node.layout import Layout
    from mainstem.pipelines.load import load_app

    declared = load_app(app)
    if pipeline is not None and pipeline not in declared.pipelines:
        known = ", ".join(declared.pipelines) or "none"
        raise InputError(f"App {declared.name} has no pipeline {pipeline!r}; it has: {known}")
    from mainstem.spark.verification.verify_process import verify as verify_pipelines

    checkpoints = Layout(data.absolute()).checkpoints(declared.name)
    if pipeline is None:
        return _verify_all(declared, bootstrap, master, checkpoints, url, json=json)
    [(_, outcome)] = verify_pipelines(declared, [pipeline], bootstrap, master=master, checkpoints=checkpoints)
    if isinstance(outcome, MainstemError):
        raise outcome
    if json:
        out_json(outcome.to_json())
    else:
        _show(outcome)
    return NO if outcome.is_contradicted else DONE


def _verify_all(app: App, bootstrap: str, master: str, checkpoints: Path, url: str, *, json: bool) -> int:
    """One row for each pipeline and view; 5 when one differs, else the code of the first that could not be verified."""
    from mainstem.errors import MainstemError
    from mainstem.spark.verification.verify_process import verify as verify_pipelines

    derived = [name for name, pipeline in app.pipelines.items() if not pipeline.each_batch]
    found: list[tuple[str, str, VerificationResult | dict[str, Any] | MainstemError]] = []
    if derived:
        verified = verify_pipelines(app, derived, bootstrap, master=master, checkpoints=checkpoints)
        found += [("pipeline", name, outcome) for name, outcome in verified]
    found += [("view", name, _verified_view(url, name)) for name in app.views]
    skipped = [name for name in app.pipelines if name not in derived]
    rows = [_row(kind, name, result) for kind, name, result in found]
    if json:
        documents = [
            {"kind": kind, "name": name, "result": row["result"], **_document(result)}
            for (kind, name, result), row in zip(found, rows, strict=True)
        ]
        out_json({"verified": documents, "not_verifiable": skipped})
    else:
        if rows:
            out_rows(_said_once(rows))
        if not found and not skipped:
            out(f"App {app.name} declares no pipelines and no views: there is nothing to verify")
        for name in skipped:
            out(f"{name} is a foreach_batch function, which cannot be verified")
    if any(row["result"] == DIFFERENT for row in rows):
        return NO
    return next((exit_code_of(result) for _, _, result in found if isinstance(result, MainstemError)), DONE)


def _verified_view(url: str, name: str) -> dict[str, Any] | MainstemError:
    from mainstem.client.http.views import views
    from mainstem.errors import MainstemError

    try:
        return views(url)[name].verify()
    except MainstemError as error:
        return error


def _row(kind: str, name: str, result: VerificationResult | dict[str, Any] | MainstemError) -> dict[str, Any]:
    from mainstem.errors import MainstemError

    row = {"name": name, "kind": kind}
    if isinstance(result, MainstemError):
        return {**row, "result": NOT_VERIFIED, "compared": None, "differing": None, "why": str(result)}
    if isinstance(result, dict):
        word = EQUAL if result["equal"] else DIFFERENT
        differing = len(result["differences"])
        return {**row, "result": word, "compared": result["records"], "differing": differing, "why": None}
    compared = sum(topic.expected for topic in result.topics)
    differing = sum(topic.differing for topic in result.topics)
    why = f"in full: mainstem verify APP.py {name}" if not result.is_equal else None
    return {**row, "result": _word(result), "compared": compared, "differing": differing, "why": why}


def _said_once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; a reason that is the one of the row before is not repeated."""
    reasons = [None, *(row["why"] for row in rows)]
    return [
        {**row, "why": "as above" if row["why"] is not None and row["why"] == before else row["why"]}
        for row, before in zip(rows, reasons, strict=False)
    ]


def _document(result: VerificationResult | dict[str, Any] | MainstemError) -> dict[str, Any]:
    from mainstem.errors import MainstemError

    if isinstance(result, MainstemError):
        return {"error": str(result)}
    return result if isinstance(result, dict) else result.to_json()


def _word(outcome: VerificationResult) -> str:
    return EQUAL if outcome.is_equal else DIFFERENT if outcome.is_contradicted else "not contradicted"


def _show(outcome: VerificationResult) -> None:
    out(f"{_word(outcome)}: {outcome.pipeline} and a batch over {outcome.source}")
    if outcome.begins:
        out(f"compared from {outcome.begins}: older records were removed")
    for topic in outcome.topics:
        out(str(topic))
        if topic.differences:
            _show_differences(topic)
    if outcome.waits and outcome.watermark_held_by is not None:
        out(f"the watermark is held by {outcome.watermark_held_by}")
    for caveat in outcome.caveats:
        out(f"may be why: {caveat}")


def _show_differences(topic: TopicVerification) -> None:
    out_rows([{name: value for name, value in each.to_json().items() if value != 1} for each in topic.differences])
    if topic.differing > len(topic.differences):
        out(f"these are the first {len(topic.differences)} of {topic.differing:,}")
