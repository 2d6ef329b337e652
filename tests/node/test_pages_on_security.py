"""The pages on security run as a reader would run them: users, ACLs, certificates, both kinds of tokens, clients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.client.security import Security
from mainstem.errors import AuthorizationError
from mainstem.spark.options.security_options import security_of
from tests.house.pages import ROOT, Block, blocks_of, lines_of_shell
from tests.node.page_session import PageSession
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.token_issuer import TokenIssuer

PASSWORD = "correct horse"
RECORD = '{"id": 1}'
SECURITY = "docs/operate/security.md"


def of_node(page: str) -> list[Block]:
    """The blocks of a page that start nodes or need one."""
    return [block for block in blocks_of(ROOT / page) if block.mark == "node"]


@pytest.fixture
def session(tmp_path: Path) -> Any:
    """A shell beside the files that the page assumes: a server's certificate, its authority, an issuer's keys."""
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("server")
    (tmp_path / "server.pem").write_text(key.read_text() + certificate.read_text())
    secured = f"localhost:{free_port()}"
    places = {
        "SASL_SSL://0.0.0.0:9093": f"SASL_SSL://{secured.replace('localhost', '127.0.0.1')}",
        "log.example.com:9093": secured,
        "https://issuer.example/jwks": f"file://{tmp_path}/jwks.json",
        "mainstem users add": f"echo '{PASSWORD}' | mainstem users add",
    }
    with PageSession(tmp_path, places) as session:
        session.place("127.0.0.1:9092", session.log)
        yield session


def test_a_log_gets_users_rights_and_tokens_and_its_clients_log_in(session: PageSession, tmp_path: Path) -> None:
    serve, oauth, acls, python, client, spark = of_node(SECURITY)
    session.run(serve)
    with Log(session.log) as log:
        log.create_topic("orders")
    properties = re.search(r"((?:    [a-z.]+=.*\n)+)", (ROOT / SECURITY).read_text())
    assert properties is not None
    (tmp_path / "client.properties").write_text(re.sub("^ +", "", properties[1], flags=re.M).replace("…", PASSWORD))
    secured = session.here("log.example.com:9093")
    append = f"MAINSTEM_CLIENT_CONFIG=client.properties mainstem append TOPIC '{RECORD}' --bootstrap {secured}"
    assert "orders/0:1" in session.line(append.replace("TOPIC", "orders"))
    assert "audit" in session.fails(append.replace("TOPIC", "audit"), 1)

    named: dict[str, Any] = {}
    exec(_python(client, session, tmp_path), named)
    with named["log"] as alices:
        assert str(alices.append("orders", {"id": 2})) == "orders/0:2"
        with pytest.raises(AuthorizationError):
            alices.create_topic("audit")
    exec(_python(spark, session, tmp_path), named)
    assert security_of(named["secured"]) == Security(
        "SASL_SSL", "SCRAM-SHA-256", "alice", PASSWORD, str(tmp_path / "ca.pem")
    )

    session.run(acls)
    listed = session.line("mainstem acls list")
    assert "User:bob" in listed
    assert "audit" not in listed
    exec(_python(python, session, tmp_path), {"ms": __import__("mainstem")})
    assert "alice" not in session.line("mainstem users list")
    for block in (*of_node("docs/spark/clusters.md"), of_node("docs/howto/share.md")[-1]):
        session.run(block)
    listed = session.line("mainstem acls list")
    assert {"User:spark", "User:reporting"} <= set(re.findall(r"User:\w+", listed))
    session.stop()

    issuer = TokenIssuer()
    (tmp_path / "jwks.json").write_bytes(issuer.document)
    (tmp_path / "token").write_text(issuer.token("alice"))
    session.run(oauth)
    session.line("mainstem acls add User:alice --operation write --on topic:orders")
    environment = {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_MECHANISM": "OAUTHBEARER",
        "SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": f"file://{tmp_path}/token",
        "SSL_CA_LOCATION": "ca.pem",
    }
    said = " ".join(f"MAINSTEM_{name}={value}" for name, value in environment.items())
    assert "orders/0:3" in session.line(f"{said} mainstem append orders '{RECORD}' --bootstrap {secured}")
    session.stop()

    [settings] = of_node("docs/operate/systemd.md")
    session.line("mainstem tokens create ops --admin '*' --file tokens.json")
    session.place("/etc/mainstem", str(tmp_path))
    (tmp_path / "mainstem.toml").write_text(session.here(settings.text))
    session.unset("MAINSTEM_LISTEN")  # it would win over the file
    assert session.line("mainstem serve").startswith(f"ready: kafka {session.log}")
    assert "orders/0:4" in session.line(f"mainstem append orders '{RECORD}'")


def test_a_topic_is_shared_over_http_and_access_is_changed_there(session: PageSession, tmp_path: Path) -> None:
    admin = session.line("mainstem tokens create ops --admin '*' --file tokens.json").split()[-1]
    share, ask, _ = of_node("docs/howto/share.md")
    create, serve = lines_of_shell(share.text)
    session.set("MAINSTEM_TOKEN", session.line(create).split()[-1])
    session.line(f"{serve} --set super.users=User:ANONYMOUS")
    with Log(session.log) as log:
        log.create_topic("orders")
        log.append("orders", {"id": 1})
    session.place("localhost:8080", f"http://{session.http}")
    session.place("curl", "curl --silent --show-error --fail-with-body")
    assert '"id":1' in session.run(ask).replace(" ", "")
    [access] = of_node("docs/reference/http.md")
    session.set("MAINSTEM_TOKEN", admin)
    session.place("curl ", 'curl -H "Authorization: Bearer $MAINSTEM_TOKEN" ')
    session.run(access)
    assert "alice" in session.line("mainstem users list")
    assert "User:alice" in session.line("mainstem acls list")


def _python(block: Block, session: PageSession, directory: Path) -> str:
    """A program of a page with the addresses, the password and the files of the test."""
    text = block.text.replace("localhost:9092", session.log).replace('"ca.pem"', repr(str(directory / "ca.pem")))
    return session.here(text).replace("…", PASSWORD)
