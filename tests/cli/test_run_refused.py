"""``mainstem run`` with something wrong in its arguments: one line that names it, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Commands

APP = 'import mainstem as ms\n\napp = ms.App("a")\n'
FILES = {"app.py": APP, "no_app.py": "x = 1\n", "no_module.py": "import no_such_module\n", "junk": "{junk"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.py"], "missing.py: no such file; name the Python file that declares your App"),
        (["no_app.py"], "no_app.py: declares no App"),
        (["no_module.py"], "no_module.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        (["app.py", "--http", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["app.py", "--http", "127.0.0.1:99999"], "'127.0.0.1:99999' is not HOST:PORT"),
        (["app.py", "--http", "192.0.2.1:80"], "without tokens (--http-tokens) and TLS (--http-tls-cert)"),
        (["app.py", "--http-tokens", "junk"], "junk is not a token file"),
        (["app.py", "--http-tls-cert", "missing.pem"], "missing.pem: no certificate and key for HTTP"),
        (["app.py", "--http-tls-cert", "junk"], "junk: no certificate and key for HTTP"),
        (["app.py", "--set", "no.such=1"], "unknown setting 'no.such'"),
        (
            ["app.py", "--set", "ssl.keystore.location=missing", "--listen", "SSL://127.0.0.1:0"],
            "missing cannot be used",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_starts(
    command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAINSTEM_BOOTSTRAP")
    for name, text in FILES.items():
        Path(name).write_text(text)
        Path(name).chmod(0o600)
    places = ["--data", "data"] if "--set" in arguments else ["--data", "data", "--listen", "127.0.0.1:0"]
    done = command.run("run", *arguments, *places)
    assert (done.code, words in done.error) == (1, True), done


def test_a_token_file_that_others_may_read_is_refused(
    command: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MAINSTEM_BOOTSTRAP")
    app, tokens = tmp_path / "app.py", tmp_path / "tokens.json"
    app.write_text(APP)
    tokens.write_text("{}")
    tokens.chmod(0o644)
    done = command.run("run", str(app), "--http-tokens", str(tokens), "--data", str(tmp_path / "data"))
    assert (done.code, done.error) == (1, f"{tokens}: others may read or change it; chmod 600 {tokens}")
