"""OAUTHBEARER with librdkafka and a Java client, over TLS, with ACLs for the token's user."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import run_tool
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer

DEADLINE_S = 60


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, issuer: TokenIssuer
) -> Iterator[LogProcess]:
    """A log that takes tokens alone; alice may do everything."""
    data = tmp_path_factory.mktemp("guarded") / "data"
    jwks = data.parent / "jwks.json"
    jwks.write_bytes(issuer.document)
    process = LogProcess(
        data,
        ssl_keystore_location=str(authority.keystore("localhost")),
        super_users="User:alice",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=jwks.as_uri(),
        sasl_oauthbearer_expected_issuer=ISSUER,
        sasl_oauthbearer_expected_audience=AUDIENCE,
    ).start("--listen", "SASL_SSL://127.0.0.1:0")
    yield process
    assert process.stop() == 0


def options(log: LogProcess, authority: Authority, token: Callable[[], str], valid_s: float = 600) -> dict[str, object]:
    return {
        "bootstrap.servers": log.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token(), time.time() + valid_s),
        "ssl.ca.location": str(authority.certificate),
    }


def test_librdkafka_works_with_a_token_and_renews_it(
    guarded: LogProcess, authority: Authority, issuer: TokenIssuer
) -> None:
    given: list[str] = []

    def token() -> str:
        given.append(issuer.token("alice", valid_s=2))
        return given[-1]

    producer = Producer(options(guarded, authority, token, 2))

    def is_renewed() -> bool:
        producer.produce("tokens", b"x")
        return producer.flush(DEADLINE_S) == 0 and len(given) > 2

    eventually(is_renewed, "a second session", DEADLINE_S)


def test_a_user_without_rights_and_a_forged_token_are_refused(
    guarded: LogProcess, authority: Authority, issuer: TokenIssuer
) -> None:
    bob = AdminClient(options(guarded, authority, lambda: issuer.token("bob")))
    assert not {name for name in bob.list_topics(timeout=DEADLINE_S).topics if not name.startswith("__")}
    errors: list[KafkaError] = []
    forged = Producer({**options(guarded, authority, TokenIssuer().token), "error_cb": errors.append})

    def is_refused() -> bool:
        forged.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in errors)

    eventually(is_refused, "a refusal", DEADLINE_S)
    assert any("token is refused" in error.str() for error in errors)


@pytest.mark.maven
@pytest.mark.usefixtures("kafka_jars")
def test_a_java_client_works_with_a_token(
    guarded: LogProcess,
    authority: Authority,
    issuer: TokenIssuer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = tmp_path / "token.jwt"
    token.write_text(issuer.token("alice"))
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()} "
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token}",
    )
    properties = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.oauthbearer"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        f"sasl.jaas.config={module}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={module}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )
    arguments = ("--bootstrap-server", guarded.bootstrap, "--command-config", str(properties))
    done = run_tool("org.apache.kafka.tools.TopicCommand", *arguments, "--create", "--topic", "java")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Created topic java" in done.stdout
