"""Bearer tokens: what their scopes admit, what their file must be, and what every route asks for."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from mainstem.client.http.views import views
from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    InputError,
    TokenExistsError,
    UnknownTokenError,
)
from mainstem.gateway.access import tokens as tokens_module
from mainstem.gateway.access.access_rules import ADMIN_ALL, AccessRules
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import (
    Grants,
    Token,
    TokenFile,
    add_token,
    digest_of,
    new_token,
    read_tokens,
    revoke_token,
    write_tokens,
)
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.testing.clock import ManualClock
from tests.gateway.served import served
from tests.gateway.test_bad_input import is_problem
from tests.support.eventually import eventually

SCOPES = {
    "reader": Grants(read=("topic:gate-orders", "view:*")),
    "writer": Grants(write=("topic:gate-*",)),
    "watcher": Grants(read=("*",)),
    "root": Grants(admin=("*",)),
}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    made = {name: new_token(name, grants) for name, grants in SCOPES.items()}
    write_tokens(path, [token for token, _ in made.values()])
    return path, {name: text for name, (_, text) in made.items()}


@pytest.fixture(scope="module")
def gated(session_log: Log, tokens: tuple[Path, dict[str, str]]) -> Iterator[httpx.Client]:
    for topic in ("gate-orders", "gate-other"):
        session_log.create_topic(topic, partitions=1)
    with served(create_app(session_log, ForwardingBackend([]), GatewayLimits(), tokens=TokenFile(tokens[0]))) as client:
        yield client


@pytest.fixture
def bearer(tokens: tuple[Path, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {name: {"Authorization": f"Bearer {text}"} for name, text in tokens[1].items()}


APPEND = ("POST", "/topics/gate-other/records")


@pytest.mark.parametrize(
    ("who", "method", "path", "status"),
    [
        ("reader", "GET", "/topics/gate-orders/records", 200),
        ("reader", "GET", "/topics/gate-orders", 200),
        ("reader", "GET", "/topics/gate-other/records", 403),
        ("reader", "GET", "/topics/gate-other/keys/a/records", 403),
        ("reader", "POST", "/topics/gate-orders/records", 403),
        ("reader", "POST", "/views/x/rebuild", 403),
        ("reader", "GET", "/views/x/keys/a", 404),
        ("reader", "GET", "/groups", 403),
        ("reader", "GET", "/config", 403),
        ("writer", *APPEND, 201),
        ("writer", "POST", "/topics/elsewhere/records", 403),
        ("writer", "POST", "/topics/elsewhere/requests", 403),
        ("writer", "GET", "/topics/gate-other/records", 403),
        ("writer", "GET", "/requests/nothing", 403),
        ("watcher", "GET", "/pipelines", 200),
        ("watcher", "GET", "/config", 403),
        ("watcher", *APPEND, 403),
        ("watcher", "GET", "/nothing/here", 403),
        ("root", *APPEND, 201),
        ("root", "GET", "/config", 200),
        ("root", "GET", "/nothing/here", 404),
        ("root", "PUT", "/topics", 405),
        ("watcher", "PUT", "/topics", 403),
    ],
)
def test_a_token_may_what_its_scopes_say(
    gated: httpx.Client, bearer: dict[str, dict[str, str]], who: str, method: str, path: str, status: int
) -> None:
    body = {"json": {"records": [{"value": 1}]}} if method == "POST" else {}
    answer = gated.request(method, path, headers=bearer[who], **body)
    assert answer.status_code == status, answer.text
    if status == 403:
        is_problem(answer, 403, "it asks for")
        assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer wrong", "Basic YTpi", "bearer " + "x" * 1000])
def test_who_brings_no_token_is_told_to(gated: httpx.Client, value: str) -> None:
    answer = gated.get("/topics", headers={"Authorization": value} if value else {})
    is_problem(answer, 401, "token")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert gated.get("/openapi.json").status_code == 200
    eventually(lambda: gated.get("/healthz").is_success, "the log answers")


def test_lists_show_what_the_token_may_read(gated: httpx.Client, bearer: dict[str, dict[str, str]]) -> None:
    shown = {who: [row["name"] for row in gated.get("/topics", headers=bearer[who]).json()["topics"]] for who in bearer}
    assert (shown["reader"], shown["writer"]) == (["gate-orders"], [])
    assert {"gate-orders", "gate-other"} <= set(shown["watcher"])


def test_the_python_client_brings_its_token_and_raises_the_same_errors(
    gated: httpx.Client, tokens: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(gated.base_url)
    with pytest.raises(AuthorizationError, match="read on view:x"):
        views(url, token=tokens[1]["writer"])["x"].get("a")
    with pytest.raises(AuthenticationError):
        views(url)["x"].get("a")
    monkeypatch.setenv("MAINSTEM_TOKEN", "two words")
    with pytest.raises(ConfigError, match="copied whole"):
        views(url)


def test_what_has_no_rule_is_for_who_may_everything() -> None:
    rule, _ = AccessRules().rule_for("DELETE", "/topics/a/records")
    assert rule is ADMIN_ALL
    assert not rule.admits(Grants(read=("*",), write=("*",)), {})
    assert rule.admits(Grants(admin=("*",)), {})


def test_a_prefix_is_no_more_than_a_prefix() -> None:
    grants = Grants(read=("topic:a*", "view:b"))
    assert grants.may("read", "topic", "abc")
    assert not any(grants.may("read", kind, name) for kind, name in [("topic", "b"), ("view", "bc"), ("view", "a")])
    assert not grants.may("write", "topic", "abc")
    assert not grants.may_everything("read")


def test_admin_implies_read_and_write_and_write_implies_nothing() -> None:
    assert all(Grants(admin=("topic:a",)).may(scope, "topic", "a") for scope in ("read", "write", "admin"))
    assert not Grants(write=("*",)).may("read", "topic", "a")


class LaterClock(SystemClock):
    """A clock that a test sets forward."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


def test_a_revoked_token_ends_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "t.json", LaterClock()
    (kept, kept_text), (gone, gone_text) = new_token("kept", SCOPES["root"]), new_token("gone", SCOPES["root"])
    write_tokens(path, [kept, gone])
    file = TokenFile(path, clock)
    assert file.find(gone_text) == gone
    write_tokens(path, [kept])
    clock.later_s += 2
    assert (file.find(gone_text), file.find(kept_text)) == (None, kept)
    path.write_text("{")
    clock.later_s += 2
    assert file.find(kept_text) == kept


def test_a_token_of_another_process_counts_at_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "t.json", ManualClock()
    write_tokens(path, [])
    file = TokenFile(path, clock)
    for name in ("first", "second"):
        made, text = new_token(name, SCOPES["root"])
        assert file.find(text) is None
        add_token(path, made)
        assert file.find(text) == made, "no time has passed"


def test_unknown_tokens_cost_ten_looks_a_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = tmp_path / "t.json", ManualClock()
    write_tokens(path, [])
    file = TokenFile(path, clock)
    looks, stat = [], Path.stat

    def noted(self: Path, **options: bool) -> os.stat_result:
        looks.append(self)
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", noted)
    for _ in range(100):
        file.find("guessed")
    assert len(looks) == 10
    for _ in range(500):
        clock.advance(0.01)
        file.find("guessed")
    assert 45 <= len(looks) - 10 <= 60, "ten in each of five seconds, and the look of every second"


def test_unknown_tokens_do_not_have_a_refused_file_read_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "t.json", ManualClock()
    write_tokens(path, [])
    file = TokenFile(path, clock)
    reads, read = [], tokens_module.read_tokens

    def noted(path: Path) -> dict[str, Token]:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(tokens_module, "read_tokens", noted)
    path.write_text("{")
    for _ in range(5):
        file.find("guessed")
    assert len(reads) == 1
    assert "the tokens stay as they were" in caplog.text
    made, text = new_token("late", SCOPES["root"])
    write_tokens(path, [made])
    clock.advance(1)
    assert file.find(text) == made
    assert len(reads) == 2


def test_a_file_that_was_refused_counts_when_it_is_right(tmp_path: Path) -> None:
    """``chmod`` changes neither its time, nor its size."""
    path, clock = tmp_path / "t.json", LaterClock()
    (kept, kept_text), (gone, gone_text) = new_token("kept", SCOPES["root"]), new_token("gone", SCOPES["root"])
    write_tokens(path, [kept, gone])
    file = TokenFile(path, clock)
    write_tokens(path, [kept])
    for mode, found in ((0o644, gone), (0o600, None)):
        path.chmod(mode)
        clock.later_s += 2
        assert (file.find(gone_text), file.find(kept_text)) == (found, kept)


def test_writers_beside_each_other_lose_no_change(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    add_token(path, new_token("root", SCOPES["root"])[0], make_file=True)
    names = [f"t{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: add_token(path, new_token(name, SCOPES["watcher"])[0]), names))
        list(threads.map(lambda name: revoke_token(path, name), names[::2]))
    assert set(read_tokens(path)) == {"root", *names[1::2]}
    with pytest.raises(TokenExistsError):
        add_token(path, new_token("root", SCOPES["root"])[0])
    with pytest.raises(UnknownTokenError):
        revoke_token(path, "t0")
    with pytest.raises(InputError, match="last token"):
        revoke_token(path, "root", keep_admin=True)
    assert "root" in read_tokens(path)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write_tokens(path, [])
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_tokens(path)


@pytest.mark.parametrize(("mode", "is_read"), [(0o640, True), (0o440, True), (0o644, False), (0o660, False)])
def test_a_file_of_root_may_be_readable_by_the_group(mode: int, is_read: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of root")
    with tempfile.TemporaryDirectory() as directory:
        path, group = Path(directory) / "t.json", 65_534
        write_tokens(path, [])
        os.chown(path, 0, group)
        path.chmod(mode)
        Path(directory).chmod(0o755)
        os.setegid(group)
        os.seteuid(65_534)
        try:
            with nullcontext() if is_read else pytest.raises(ConfigError, match="others may read"):
                assert read_tokens(path) == {}
        finally:
            os.seteuid(0)
            os.setegid(0)


@pytest.mark.parametrize(
    "row",
    [
        {"name": "a b", "sha256": digest_of("x")},
        {"name": "a", "sha256": "plain"},
        {"name": "a"},
        {"name": "a", "sha256": digest_of("x"), "read": ["orders"]},
        {"name": "a", "sha256": digest_of("x"), "read": ["topic:a*b"]},
        {"name": "a", "sha256": digest_of("x"), "reads": []},
        "a",
        7,
    ],
)
def test_a_file_that_is_wrong_is_one_clear_error(tmp_path: Path, row: object) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"tokens": [row]}))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=str(path)):
        read_tokens(path)
