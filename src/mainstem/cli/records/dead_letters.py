"""``mainstem dead-letters``: list, show, handled."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainstem.cli import options
from mainstem.cli.connect import connect
from mainstem.cli.output import cell_text, note, out, out_json, out_rows
from mainstem.clock import utc_time
from mainstem.errors import InputError

if TYPE_CHECKING:
    from mainstem.client.dead_letters import DeadLetters

app = typer.Typer(
    help="Dead letters of views and pipelines: group, show and mark them.", no_args_is_help=True, rich_markup_mode=None
)

Owner = Annotated[str, typer.Argument(metavar="NAME", help="A view, a pipeline, or their topic of dead letters.")]
Group = Annotated[str | None, typer.Option("--group", metavar="ID", help="Only of this group of the list.")]


@app.command("list")
def list_groups(
    everything: Annotated[bool, typer.Option("--all", help="The groups that are handled, too.")] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """The dead letters by reason: how many are new, how many there are in all, when the first and the last came."""
    from mainstem.client.dead_letters import DeadLetters
    from mainstem.gateway.topics.dead_letter_json import letter_topics_json

    with connect(bootstrap) as log:
        document = letter_topics_json(DeadLetters(log).topics())
    document["groups"] = [each for each in document["groups"] if everything or each["unhandled"]]
    if json:
        out_json(document)
        return
    if document["groups"]:
        out_rows([_row(group) for group in document["groups"]])
    else:
        out("no new dead letters" + ("" if everything else "; --all shows those that are handled, too"))
    for topic in document["topics"]:
        if topic["partial"]:
            note(f"{topic['topic']} has more: only its newest {topic['letters']:,} are counted")


@app.command()
def show(
    name: Owner,
    group: Group = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that are handled, too.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many.")] = 20,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """The newest dead letters of a view or pipeline: what is wrong, where the record is, what is in it."""
    from mainstem.client.dead_letters import DeadLetters
    from mainstem.gateway.topics.dead_letter_json import letter_json

    with connect(bootstrap) as log:
        known = DeadLetters(log)
        topic = _topic(known, name)
        found = itertools.islice(known.letters(topic, group=group, with_handled=everything), limit)
        letters = [letter_json(each, known.content(each), is_handled=is_handled) for each, is_handled in found]
    if json:
        out_json({"topic": topic, "letters": letters})
    elif letters:
        for letter in letters:
            _print(letter)
    else:
        out("no new dead letters here" + ("" if everything else "; --all shows those that are handled, too"))


@app.command()
def handled(
    name: Owner,
    places: Annotated[
        list[str] | None, typer.Argument(metavar="[PARTITION:OFFSET]...", help="The letters, as `show` names them.")
    ] = None,
    group: Group = None,
    everything: Annotated[bool, typer.Option("--all", help="All letters of NAME.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="They are new again.")] = False,
    bootstrap: options.Bootstrap = options.DEFAULT_BOOTSTRAP,
    json: options.Json = False,
) -> None:
    """Mark dead letters as handled. The letters stay as they are; only the counts of new ones change."""
    from mainstem.client.dead_letters import DeadLetters

    if bool(places) + (group is not None) + everything != 1:
        raise InputError("name the letters to mark in one way: PARTITION:OFFSET, --group or --all")
    with connect(bootstrap) as log:
        known = DeadLetters(log)
        topic = _topic(known, name)
        changed = known.mark(topic, places=places or None, group=group, handled=not undo)
    if json:
        out_json({"topic": topic, "handled": not undo, "changed": changed})
    else:
        out(f"{changed:,} dead letter{'s' if changed != 1 else ''} marked as {'new' if undo else 'handled'}")


def _topic(known: DeadLetters, name: str) -> str:
    """The topic of dead letters that ``name`` means. Raises InputError where it means none, or several."""
    found = [each.topic for each in known.topics() if name in (each.topic, each.owner.name)]
    if not found:
        raise InputError(f"no dead letters of {name[:250]!r}: mainstem dead-letters list --all shows whose there are")
    if len(found) > 1:
        raise InputError(f"{name!r} has dead letters in several topics: name one of {', '.join(found)}")
    return found[0]


def _row(group: dict[str, Any]) -> dict[str, Any]:
    return {
        "of": f"{group['kind']} {group['name']}",
        "reason": group["reason"],
        "new": group["unhandled"],
        "all": group["letters"],
        "first": utc_time(group["first_ms"]),
        "last": utc_time(group["last_ms"]),
        "group": group["id"],
    }


def _print(letter: dict[str, Any]) -> None:
    source, record = letter["source"], letter["record"]
    at = f"{source['topic']}/{source['partition']}:{source['offset']}" if "offset" in source else source["topic"]
    out(f"{letter['place']}  {utc_time(letter['timestamp_ms'])}  {at or 'of an unknown place'}")
    out(f"    {letter['error']}")
    if record is None:
        out("    retention has removed it")
        return
    for name in ("key", "value"):
        if name in record or f"{name}_base64" in record:
            out(f"    {name}: {cell_text(record.get(name, record.get(f'{name}_base64')))}")
