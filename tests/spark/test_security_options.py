"""Security among the source's options: Kafka's names in both dialects, refused where they mean nothing, never shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mainstem.client.security import Security
from mainstem.errors import ConfigError
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.options.security_options import security_of

SECRET = 'p"ä;\\ss = word'
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
    ' username="alice" password="p\\"ä;\\\\ss = word";'
)
SASL = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}


def test_librdkafkas_names_are_taken() -> None:
    given = {**SASL, "kafka.sasl.username": "alice", "kafka.sasl.password": SECRET, "kafka.ssl.ca.location": "ca.pem"}
    assert security_of(given) == Security("SASL_SSL", "SCRAM-SHA-512", "alice", SECRET, "ca.pem")


def test_java_clients_names_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    given = {
        **SASL,
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.truststore.location": str(tmp_path / "ca.pem"),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.keystore.location": "client.pem",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }
    expected = Security("SASL_SSL", "SCRAM-SHA-512", "alice", SECRET, str(tmp_path / "ca.pem"), "client.pem")
    found = security_of(given)
    assert (found.username, found.password, found.ca_location) == ("alice", SECRET, expected.ca_location)
    assert (found.certificate_location, found.identification) == ("client.pem", "none")


@pytest.mark.parametrize("prefix", ["", "kafkashaded."])
def test_a_plain_login_module_says_its_mechanism(prefix: str) -> None:
    module = f"{prefix}org.apache.kafka.common.security.plain.PlainLoginModule"
    given = {
        "kafka.security.protocol": "sasl_plaintext",
        "kafka.sasl.jaas.config": f"{module} required username='a' password=b ;",
    }
    assert security_of(given) == Security("SASL_PLAINTEXT", "PLAIN", "a", "b")


def test_the_environment_is_asked_at_the_driver_when_no_option_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_SECURITY_PROTOCOL", "SSL")
    options = ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "a"})
    monkeypatch.delenv("MAINSTEM_SECURITY_PROTOCOL")
    assert pickle.loads(pickle.dumps(options)).log.security.protocol == "SSL"
    assert LogOptions("h:1").security.protocol == "PLAINTEXT"


def test_options_of_a_log_are_hashed_with_their_security_and_show_no_secret() -> None:
    given = {"kafka.bootstrap.servers": "h:1", **SASL, "kafka.sasl.jaas.config": JAAS, "topic": "t"}
    options, other = WriteOptions.parse(given), WriteOptions.parse({**given, "kafka.sasl.mechanism": "SCRAM-SHA-256"})
    assert len({options.log, WriteOptions.parse(given).log, other.log}) == 2
    assert SECRET not in repr(options)
    assert "alice" in repr(options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "Krb5LoginModule, where PlainLoginModule",
        ),
        ({"kafka.sasl.jaas.config": SECRET}, "no login module, where"),
        (
            {"kafka.sasl.jaas.config": f'x.ScramLoginModule required username="a" password="{SECRET}'},
            "write ScramLogin",
        ),
        ({"kafka.sasl.jaas.config": JAAS, "kafka.sasl.mechanism": "PLAIN"}, "is PLAIN, beside ScramLoginModule"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "'GSSAPI': use one of"),
        ({"kafka.sasl.username": "a"}, "needs sasl.username and sasl.password"),
        ({"kafka.security.protocol": "SSL", "kafka.sasl.password": SECRET}, "sasl.mechanism does nothing with"),
        ({"kafka.security.protocol": "TLS"}, "use one of PLAINTEXT"),
        ({"kafka.ssl.truststore.password": SECRET}, "truststore.location is missing"),
        ({"kafka.ssl.truststore.location": "a", "kafka.ssl.truststore.type": "jks"}, "Java keystore .JKS.*-rfc"),
        ({"kafka.ssl.keystore.location": "a", "kafka.ssl.keystore.type": "PKCS12"}, "Java keystore .PKCS12.*openssl"),
        ({"kafka.ssl.keystore.location": "a", "kafka.ssl.keystore.password": SECRET}, "kafka.ssl.key.password"),
    ],
)
def test_what_cannot_be_is_refused_without_a_secret(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        security_of({**SASL, **given})
    assert SECRET not in str(caught.value)


def test_a_mechanism_is_asked_for_where_the_module_leaves_it_open() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.mechanism is missing, beside ScramLoginModule"):
        security_of({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": JAAS})


@pytest.mark.parametrize("start", [b"\xfe\xed\xfe\xed", b"\x30\x82\x01\x02"])
def test_a_java_keystore_is_known_by_its_first_bytes(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "trust").write_bytes(start)
    with pytest.raises(ConfigError, match=r"is a Java keystore \(JKS or PKCS12\), which is not read; make PEM of it"):
        security_of({**SASL, "kafka.ssl.truststore.location": str(tmp_path / "trust")})
