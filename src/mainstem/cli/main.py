"""``mainstem``: the command line. Commands are listed here; only the one that is asked for is loaded.

Every error is one line on standard error that says what is wrong and what to do, and an exit code of
``exit_codes``. ``MAINSTEM_DEBUG=1`` adds the traceback.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mainstem.cli.output import OutputClosedError, note
from mainstem.cli.plain_parameters import PlainCommand, PlainGroup
from mainstem.cli.settings import FILE_NAME, defaults, export_security
from mainstem.errors import MainstemError, in_plain_words
from mainstem.exit_codes import DONE, INTERRUPTED, MACHINE, OUTPUT_CLOSED, REFUSED, USAGE, exit_code_of
from mainstem.extras import naming_the_extra

_COMMANDS: Final = {
    "serve": "apps.serve",
    "restore": "copies.restore",
    "run": "apps.run",
    "verify": "apps.verify",
    "demo": "demo.command",
    "load": "records.load",
    "append": "records.append",
    "prove": "records.prove",
    "read": "records.read",
    "doctor": "operation.doctor",
    "health": "operation.health",
    "graduate": "operation.graduate",
    "adopt": "operation.adopt",
    "bench": "records.bench",
    "why": "operation.why",
    "mcp": "operation.mcp",
    "mirror": "operation.mirror",
    "promote": "operation.promote",
    "version": "operation.version",
}
"""The module of each command, which has a function of the command's name."""
_GROUPS: Final = {
    "backup": "copies.backup",
    "connect": "apps.captures",
    "dead-letters": "records.dead_letters",
    "groups": "operation.groups",
    "tokens": "security.tokens",
    "keys": "security.keys",
    "log": "operation.log",
    "pipelines": "apps.pipelines",
    "topics": "records.topics",
    "users": "security.users",
    "acls": "security.acls",
    "views": "apps.views",
}
"""The module of each group of commands, which has them as ``app``."""


def command_line(only: str | None = None) -> typer.Typer:
    """All commands, or the one or the group of that name alone: it loads and builds no other."""
    app = typer.Typer(
        name="mainstem",
        cls=PlainGroup,
        help="One durable log that speaks the Kafka protocol, Spark pipelines, and views that prove their answers.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # rich's help takes as long to load as all else together
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)  # one command alone is a group, too
    for name in [each for each in _COMMANDS if only in (None, each)]:
        app.command(name, cls=PlainCommand if name == "serve" else None)(getattr(_module(_COMMANDS[name]), name))
    for name in [each for each in _GROUPS if only in (None, each)]:
        app.add_typer(_module(_GROUPS[name]).app, name=name)
    return app


def _say_version(asked: bool) -> None:
    if asked:
        _module(_COMMANDS["version"]).version()
        raise typer.Exit


def _root(
    is_version_asked: Annotated[  # not "version": the settings file may have a table of that command's name
        bool, typer.Option("--version", help="Print the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """The options of ``mainstem`` itself."""


def _module(name: str) -> Any:
    return importlib.import_module(f"mainstem.cli.{name}")


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit."""
    sys.exit(execute(sys.argv[1:] if argv is None else argv))


def execute(argv: list[str]) -> int:
    """Run one command; its exit code."""
    try:
        export_security(client_config=os.environ.get("MAINSTEM_CLIENT_CONFIG", ""))
        first = "version" if argv[:1] == ["--version"] else next(iter(argv), "")
        with naming_the_extra():
            app = command_line(first if first in _COMMANDS or first in _GROUPS else None)
            result = app(argv, prog_name="mainstem", standalone_mode=False, default_map=_defaults())
    except MainstemError as error:
        return _failed(str(error), exit_code_of(error))
    except typer.TyperException as error:
        return _wrong_usage(error)
    except typer.Abort as abort:
        return _aborted(abort)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except OutputClosedError:
        return OUTPUT_CLOSED
    except Exception as error:  # noqa: BLE001  # the last boundary: a defect is one line too
        if isinstance(error, OSError) and error.filename is not None:  # no permission, or too long a name
            reason = (error.strerror or "it cannot be used").lower()
            return _failed(f"{error.filename}: {reason}; name another path, or give this user the right to it", MACHINE)
        if isinstance(error, UnicodeEncodeError) and (wrong := _not_utf8(argv)) is not None:
            return _failed(f"{wrong!a} is not UTF-8; give values of other bytes by standard input", REFUSED)
        return _failed(f"a defect: {type(error).__name__}: {error} (MAINSTEM_DEBUG=1 shows where)", REFUSED)
    return result if isinstance(result, int) else DONE


def _aborted(abort: typer.Abort) -> int:
    """A prompt without an answer; ctrl-C comes as an Abort, too."""
    if isinstance(abort.__cause__ or abort.__context__, KeyboardInterrupt):
        return _failed("interrupted", INTERRUPTED)
    return _failed("the prompt got no answer: nothing was changed", REFUSED)


def _not_utf8(argv: list[str]) -> str | None:
    """The first word with bytes that are no UTF-8. Names of files may have such."""
    return next((word for word in argv if any("\ud800" <= character <= "\udfff" for character in word)), None)


def options_of_commands() -> dict[str, dict[str, str]]:
    """The options of each command, without their dashes, with typer's names of them; GROUP.COMMAND for one of a group.

    These are the keys of the tables in the settings file.
    """
    root = typer.main.get_command(command_line())
    found: dict[str, dict[str, str]] = {}
    for name, command in getattr(root, "commands", {}).items():
        found[name] = _options_of(command)
        for each, inner in getattr(command, "commands", {}).items():
            found[f"{name}.{each}"] = _options_of(inner)
    return found


def _defaults() -> dict[str, Any]:
    """The defaults of the settings file. Only where there is one are all commands imported for their options."""
    return defaults(options_of_commands()) if Path(FILE_NAME).is_file() else {}


def _options_of(command: Any) -> dict[str, str]:
    return {word.lstrip("-"): each.name for each in command.params for word in each.opts if word.startswith("--")}


def _failed(text: str, code: int) -> int:
    if os.environ.get("MAINSTEM_DEBUG"):
        import traceback

        traceback.print_exc()
    note(f"error: {text}")
    return code


_PLAINER = (
    (r"Got unexpected extra argument\(s\) \((.*)\)", r"unexpected argument: \1"),
    (r"\. Did you mean (.*)\?", r" (did you mean \1?)"),
    (r" \(Possible options: (.*)\)", r" (did you mean \1?)"),
)
"""Words of typer's own checks → ours."""


def _wrong_usage(error: typer.TyperException) -> int:
    """The errors of typer itself: an unknown option, a missing argument."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mainstem"
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    if text.startswith("Usage:"):  # no command was given: the help says which there are
        sys.stderr.write(text + "\n")
        return USAGE
    for raw, plain in _PLAINER:
        text = re.sub(raw, plain, text)
    text = in_plain_words(text)
    return _failed(f"{text.rstrip('.')}; see {command} --help", int(getattr(error, "exit_code", USAGE)))


if __name__ == "__main__":
    main()
