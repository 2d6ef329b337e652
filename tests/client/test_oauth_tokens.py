"""Clients that log in with tokens: from a file, from a token endpoint, renewed; what they say when there is none."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from mainstem.cli.main import execute
from mainstem.client.log import Log
from mainstem.client.oauth_tokens import ANSWER_BYTES_MAX, TokenSource
from mainstem.client.security import Security, variable_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import AuthenticationError, ConfigError, LogUnavailableError
from mainstem.testing import EmbeddedBroker
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, served

_ID, _SECRET = "service a", "s:cret/+"
_BASIC = "Basic " + base64.b64encode(b"service+a:s%3Acret%2F%2B").decode()


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    authority: Authority, issuer: TokenIssuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """A log that takes tokens alone; alice may do everything, bob nothing."""
    jwks = tmp_path_factory.mktemp("issuer") / "jwks.json"
    jwks.write_bytes(issuer.document)
    settings = {
        "ssl.keystore.location": str(authority.keystore("localhost")),
        "super.users": "User:alice",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with EmbeddedBroker(settings=settings, users={"unused": "unused"}) as running:
        yield running


def options(authority: Authority, address: str, **more: str) -> dict[str, str]:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(authority.certificate),
        "sasl.oauthbearer.token.endpoint.url": address,
        "sasl.oauthbearer.client.id": _ID,
        "sasl.oauthbearer.client.secret": _SECRET,
    }
    return given | {name.replace("_", "."): value for name, value in more.items()}


def document(token: str, **more: Any) -> tuple[int, bytes]:
    return 200, json.dumps({"access_token": token, "token_type": "Bearer", **more}).encode()


def test_both_ways_to_append_and_reading_log_in_with_a_token_of_a_file(
    broker: EmbeddedBroker, authority: Authority, issuer: TokenIssuer, tmp_path: Path
) -> None:
    file = tmp_path / "token.jwt"
    file.write_text(issuer.token("alice") + "\n")
    with Log(broker.bootstrap, security=options(authority, file.as_uri())) as log:
        log.create_topic("from-file")
        log.append("from-file", "one")
        log.append_many("from-file", ["x" * 1000] * 2000)  # librdkafka
        with log.transaction("oauth") as transaction:
            transaction.append("from-file", "in a transaction")
        assert sum(1 for _ in log.read("from-file")) == 2002


def test_a_token_of_an_endpoint_is_asked_for_once_and_renewed(
    broker: EmbeddedBroker, authority: Authority, issuer: TokenIssuer
) -> None:
    given: list[str] = []

    def answer() -> tuple[int, bytes]:
        valid_s = 3 if given else 5  # the first one lasts while the topic is created, also on a slow machine
        given.append(issuer.token("alice", valid_s=valid_s))
        return document(given[-1], expires_in=valid_s)

    with served(answer) as (address, _), Log(broker.bootstrap, security=options(authority, address)) as log:
        log.create_topic("from-endpoint")
        assert len(given) == 1
        count, ends_s = 0, time.monotonic() + 120
        while len(given) < 3:
            assert time.monotonic() < ends_s, "a second and a third session"
            log.append("from-endpoint", f"{count}")
            count += 1
        assert [int(record.value or b"") for record in log.read("from-endpoint")] == list(range(count))


def test_the_endpoint_gets_the_clients_id_and_secret_as_a_form_of_oauth(issuer: TokenIssuer) -> None:
    with served(lambda: document(issuer.token())) as (address, asked):
        token = TokenSource(address, _ID, _SECRET, "read write").token()
    assert asked == [f"{_BASIC} grant_type=client_credentials&scope=read+write"]
    assert 500 < token.ends_s - time.time() <= 600, "the token's own end, where the answer has no expires_in"


def test_commands_take_the_options_from_the_environment(
    broker: EmbeddedBroker,
    authority: Authority,
    issuer: TokenIssuer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "token.jwt"
    file.write_text(issuer.token("alice"))
    for name, value in options(authority, file.as_uri()).items():
        monkeypatch.setenv(variable_of(name), value)
    assert execute(["topics", "create", "by-command", "--bootstrap", broker.bootstrap]) == 0
    file.write_text("not a token\n")
    assert execute(["topics", "list", "--bootstrap", broker.bootstrap]) != 0
    assert f"the file {file} does not hold one token" in capsys.readouterr().err


@pytest.mark.parametrize("forged", [True, False], ids=["another issuer", "expired"])
def test_a_token_that_the_log_refuses_is_one_error(
    broker: EmbeddedBroker, authority: Authority, issuer: TokenIssuer, tmp_path: Path, *, forged: bool
) -> None:
    file = tmp_path / "token.jwt"
    token = TokenIssuer().token("alice") if forged else issuer.token("alice", valid_s=-60)
    file.write_text(token)
    security = Security.of(options(authority, file.as_uri()))
    with WireClient(broker.bootstrap, security=security) as client:
        with pytest.raises(AuthenticationError, match="refuses the token") as refused:
            client.metadata()
    assert token not in str(refused.value)


class KafkaWithTokens(ApacheKafka):
    """Apache Kafka with a second listener, whose clients bring tokens. By default it takes unsigned ones."""

    tokens = ""

    def _properties(self, port: int, controller: int) -> str:
        self.tokens = f"127.0.0.1:{free_port()}"
        own = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://{self.tokens}"
        login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        settings = {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": own,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": login,
        }
        kept = [
            line for line in super()._properties(port, controller).splitlines() if line.split("=")[0] not in settings
        ]
        return "\n".join([*kept, *(f"{name}={value}" for name, value in settings.items()), ""])


@pytest.mark.maven
def test_apache_kafka_takes_a_token_and_says_why_it_refuses_one(tmp_path: Path) -> None:
    """Kafka answers a token that it refuses with a challenge first (RFC 7628)."""
    file = tmp_path / "token.jwt"
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    with KafkaWithTokens() as kafka:
        file.write_text(unsigned(int(time.time()) + 600))
        with Log(kafka.tokens, security=given) as log:
            log.create_topic("tokens")
            log.append("tokens", "one")
            log.append_many("tokens", ["x" * 1000] * 2000)  # librdkafka
            assert sum(1 for _ in log.read("tokens")) == 2001
        file.write_text(unsigned(int(time.time()) - 600))
        with WireClient(kafka.tokens, security=Security.of(given)) as client:
            with pytest.raises(AuthenticationError, match="refuses the token"):
                client.metadata()


def unsigned(ends_s: int) -> str:
    return jwt.encode({"sub": "alice", "iat": ends_s - 3600, "exp": ends_s}, None, "none")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, b'{"error": "invalid_client", "error_description": "no such"}'), r"HTTP 401 \(invalid_client: no such"),
        ((302, b""), "HTTP 302"),
        ((200, b"<html>"), "no access_token"),
        ((200, b'{"access_token": "a b"}'), "no access_token"),
        ((200, b'{"access_token": 7}'), "no access_token"),
        ((200, b"[" * 60_000), "no access_token"),
        ((200, b'{"access_token": "x", "pad": "' + b"y" * ANSWER_BYTES_MAX + b'"}'), "no access_token"),
    ],
)
def test_what_an_endpoint_answers_instead_is_one_error(answer: tuple[int, bytes], words: str) -> None:
    with served(lambda: answer) as (address, _):
        with pytest.raises(AuthenticationError, match=words) as refused:
            TokenSource(address, _ID, _SECRET, "").token()
    assert _SECRET not in str(refused.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_endpoint_that_fails_for_a_while_may_be_asked_again(status: int, issuer: TokenIssuer) -> None:
    answers = [(status, b"<html>"), document(issuer.token())]
    with served(lambda: answers.pop(0)) as (address, _):
        source = TokenSource(address, _ID, _SECRET, "")
        with pytest.raises(LogUnavailableError, match=f"gave no token: HTTP {status}"):
            source.token()
        assert source.token().text


def test_an_endpoint_that_is_away_may_come_back(issuer: TokenIssuer) -> None:
    address = f"http://127.0.0.1:{free_port()}/token"
    with pytest.raises(LogUnavailableError, match="does not answer"):
        TokenSource(address, _ID, _SECRET, "").token()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl_oauthbearer_token_endpoint_url": "http://issuer.example/token"}, "token.endpoint.url"),
        ({"sasl_oauthbearer_token_endpoint_url": ""}, "token.endpoint.url"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://a:b@issuer.example/"}, "token.endpoint.url"),
        ({"sasl_oauthbearer_client_secret": ""}, "client.secret"),
        ({"sasl_oauthbearer_method": "other"}, "method"),
    ],
)
def test_options_that_cannot_be_are_refused(authority: Authority, change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        Security.of(options(authority, "https://issuer.example/token", **change))
    assert _SECRET not in str(refused.value)
    assert _SECRET not in repr(Security.of(options(authority, "https://issuer.example/token")))
