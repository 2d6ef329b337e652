"""Clients that log in: both ways to append, reading, every mechanism, and what they say when they are not let in."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.client.security import OPTIONS, Security, variable_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.connectors.files import load
from mainstem.errors import AuthenticationError, AuthorizationError, ConfigError, LogUnavailableError
from mainstem.testing import EmbeddedBroker, ManualClock
from tests.support.certificates import Authority

USERS = {"alice": "päss word", "bob": "other"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[EmbeddedBroker]:
    settings = {"ssl.keystore.location": str(authority.keystore("localhost")), "super.users": "User:alice"}
    with EmbeddedBroker(settings=settings, users=USERS) as running:
        yield running


def options(broker: EmbeddedBroker, authority: Authority, user: str = "alice", **more: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {**broker.security(user), "ssl.ca.location": str(authority.certificate), **named}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_both_ways_to_append_and_reading_log_in(broker: EmbeddedBroker, authority: Authority, mechanism: str) -> None:
    topic = f"t-{mechanism}"
    with Log(broker.bootstrap, security=options(broker, authority, sasl_mechanism=mechanism)) as log:
        log.create_topic(topic)
        log.append(topic, "one")
        log.append_many(topic, ["x" * 1000] * 2000)  # librdkafka
        log.append(topic, "y" * 900_000)
        assert sum(1 for _ in log.read(topic)) == 2002


def test_the_environment_says_how_to_log_in(
    broker: EmbeddedBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in options(broker, authority).items():
        monkeypatch.setenv(variable_of(name), value)
    with Log(broker.bootstrap) as log:
        log.create_topic("from-environment")
    with WireClient(broker.bootstrap) as client:
        assert "from-environment" in client.metadata()


def test_transactions_and_loads_log_in(broker: EmbeddedBroker, authority: Authority, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("id\n1\n2\n")
    with Log(broker.bootstrap, security=options(broker, authority)) as log:
        log.create_topic("in-transactions", partitions=1)
        with log.transaction() as tx:
            tx.append("in-transactions", "v")
        assert load(log, source, "in-transactions").records == 2
        assert len(list(log.read("in-transactions"))) == 3


def test_a_wrong_password_is_said_at_once(broker: EmbeddedBroker, authority: Authority) -> None:
    for user, password in (("alice", "wrong"), ("nobody", "wrong")):
        given = options(broker, authority, sasl_username=user, sasl_password=password)
        with Log(broker.bootstrap, security=given) as log, pytest.raises(AuthenticationError, match="refuses user"):
            log.topics()


def test_what_one_may_not_do_is_said_as_such(broker: EmbeddedBroker, authority: Authority) -> None:
    with Log(broker.bootstrap, security=options(broker, authority)) as log:
        log.create_topic("secret", exist_ok=True)
    with Log(broker.bootstrap, security=options(broker, authority, "bob")) as log:
        with pytest.raises(AuthorizationError):
            log.append("secret", "v")
        with pytest.raises(AuthorizationError):
            log.create_topic("other")


def test_an_authority_that_is_not_believed_is_said_at_once(
    broker: EmbeddedBroker, authority: Authority, tmp_path: Path
) -> None:
    given = options(broker, Authority(tmp_path))
    with Log(broker.bootstrap, security=given) as log, pytest.raises(AuthenticationError, match=r"ssl\.ca\.location"):
        log.topics()


def test_a_log_that_speaks_no_tls_is_said_so(authority: Authority) -> None:
    with EmbeddedBroker() as plain:
        given = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
        log = Log(plain.bootstrap, timeout_s=0.5, security=given)
        with log, pytest.raises((ConfigError, LogUnavailableError), match="TLS"):
            log.topics()


def test_a_mechanism_that_the_log_does_not_take_is_said_with_those_that_it_does() -> None:
    with EmbeddedBroker(users=USERS, settings={"sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as broker:
        with Log(broker.bootstrap, security=broker.security("bob")) as log:
            with pytest.raises(AuthenticationError, match="it takes SCRAM-SHA-512"):
                log.topics()


def test_a_client_authenticates_again_before_its_session_ends() -> None:
    clock = ManualClock()
    with EmbeddedBroker(users=USERS, settings={"connections.max.reauth.ms": "60000"}, clock=clock) as broker:
        with WireClient(broker.bootstrap, clock=clock, security=Security.of(broker.security("bob"))) as client:
            client.metadata()
            first = client._connections._by_address.copy()
            for _ in range(5):
                clock.advance(55)
                client.metadata()
            assert client._connections._by_address == first  # it is still the same connection


def test_a_certificate_logs_in(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("carol")
    settings = {
        "ssl.keystore.location": str(authority.keystore("localhost")),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
    }
    given = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    mine = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    from mainstem.broker.security.listeners import Protocol

    class Mutual(EmbeddedBroker):
        _protocol = Protocol.SSL  # type: ignore[assignment]

    with Mutual(settings=settings) as broker:
        with Log(broker.bootstrap, security={**given, **mine}) as log:
            log.create_topic("t")
            log.append_many("t", ["v" * 1000] * 1000)
        with Log(broker.bootstrap, timeout_s=1, security=given) as log:
            with pytest.raises((AuthenticationError, LogUnavailableError)):
                log.topics()


def test_secrets_are_never_printed() -> None:
    security = Security.of(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hush",
            "ssl.key.password": "hush",
        }
    )
    assert "hush" not in repr(security)
    assert "hush" not in str(security)
    assert security.to_librdkafka()["sasl.password"] == "hush"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"no.such": "x"}, "no.such"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, r"sasl\.username"),
        ({"ssl.endpoint.identification.algorithm": "maybe"}, "https"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Log("localhost:1", security=given)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        Security.of({"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"}).tls_context()


def test_hosts_are_checked_unless_told_otherwise(authority: Authority) -> None:
    given = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    assert Security.of(given).tls_context().check_hostname
    loose = Security.of({**given, "ssl.endpoint.identification.algorithm": "none"}).tls_context()
    assert (loose.check_hostname, loose.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_librdkafka_knows_every_option() -> None:
    from confluent_kafka import Producer

    values = {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "https", "sasl.mechanism": "PLAIN"}
    values["sasl.oauthbearer.method"] = "default"
    Producer({name: values.get(name, "") for name in OPTIONS if not name.endswith(("location", "mechanisms"))})
