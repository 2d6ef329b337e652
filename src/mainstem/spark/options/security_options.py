"""Security among the data source's options: Kafka's names, as Java's clients and as librdkafka have them.

A program that was written for Spark's own Kafka connector says ``kafka.sasl.jaas.config``, and has its files as
``kafka.ssl.truststore.location`` and ``kafka.ssl.keystore.location``; these are read where they mean a password (PLAIN,
SCRAM) or a PEM file. Unsupported options (Kerberos, a Java keystore) are refused with an alternative; so is an option
that would have no effect.

Without any of these options, the driver uses the environment and sends the result to the tasks with the other options,
so that a worker on another machine needs no variables. No message repeats a secret. Pure, except that it reads a
store's first bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mainstem.client.security import OPTIONS, PLAIN, Security
from mainstem.errors import ConfigError

_JAAS: Final = "kafka.sasl.jaas.config"
_STORES: Final = {"truststore": "ssl.ca.location", "keystore": "ssl.certificate.location"}
_STORE_NAMES: Final = tuple(
    f"kafka.ssl.{store}.{part}" for store in _STORES for part in ("location", "type", "password")
)
NAMES: Final = (*(f"kafka.{name}" for name in OPTIONS), _JAAS, *_STORE_NAMES)
"""All of them, by name."""

_MODULE = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)
_SETTING = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""", re.DOTALL)
_END = re.compile(r"\s*;\s*$")
_TO_PEM: Final = {
    "truststore": "keytool -exportcert -rfc -keystore STORE -alias NAME -file ca.pem, and option kafka.ssl.ca.location",
    "keystore": "openssl pkcs12 -in STORE -out client.pem -nodes (a JKS store goes through keytool -importkeystore "
    "-deststoretype PKCS12 before), and option kafka.ssl.certificate.location",
}
# How a JKS store, a JCEKS store and a PKCS#12 store (DER: a long sequence) begin; PEM is text.
_BINARY_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30\x80", b"\x30\x82", b"\x30\x83")


def security_of(given: Mapping[str, str]) -> Security:
    """The security settings in ``given`` (lower-case names, with other options), or else of the environment.

    Raises ConfigError, which names the option that is wrong and never shows a secret.
    """
    options = {name: given[name] for name in NAMES if name in given}
    if not options:
        return Security.from_environment()
    found = {
        name.removeprefix("kafka."): text for name, text in options.items() if name.removeprefix("kafka.") in OPTIONS
    }
    for store, meant in _STORES.items():
        location = _pem_location(options, store)
        if location is not None:
            found.setdefault(meant, location)
    if _JAAS in options:
        mechanism = found.get("sasl.mechanism") or found.get("sasl.mechanisms") or ""
        found.update(_jaas(options[_JAAS], mechanism))
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"  # Java's clients say it so
    _require_use(options, found.get("security.protocol", "PLAINTEXT").upper())
    return Security.of(found)


def _require_use(options: Mapping[str, str], protocol: str) -> None:
    """Refuse what the protocol makes no use of: a password that is never sent is a mistake somewhere."""
    for kind, without in (("sasl", ("PLAINTEXT", "SSL")), ("ssl", ("PLAINTEXT", "SASL_PLAINTEXT"))):
        idle = [name for name in options if name.startswith(f"kafka.{kind}.")]
        if idle and protocol in without:
            raise ConfigError(
                f"option {idle[0]} does nothing with kafka.security.protocol={protocol}; "
                f"it needs SASL_SSL or {'SASL_PLAINTEXT' if kind == 'sasl' else 'SSL'}"
            )


def _pem_location(options: Mapping[str, str], store: str) -> str | None:
    """The PEM file that a store's options mean. Raises ConfigError for a store of Java's."""
    prefix = f"kafka.ssl.{store}"
    location, kind = options.get(f"{prefix}.location"), options.get(f"{prefix}.type", "")
    if location is None:
        if f"{prefix}.type" in options or f"{prefix}.password" in options:
            raise ConfigError(f"option {prefix}.location is missing; give a PEM file")
        return None
    if kind.upper() not in ("", "PEM") or _is_binary_store(location):
        raise ConfigError(
            f"option {prefix}.location: {location} is a Java keystore ({kind.upper() or 'JKS or PKCS12'}), which is "
            f"not read; make PEM of it: {_TO_PEM[store]}"
        )
    if f"{prefix}.password" in options:
        raise ConfigError(
            f"option {prefix}.password: a PEM file has no password of its own; a key's is kafka.ssl.key.password"
        )
    return location


def _is_binary_store(location: str) -> bool:
    try:
        with Path(location).open("rb") as file:
            return file.read(4).startswith(_BINARY_STORES)
    except OSError:
        return False  # opening it for use raises the error


def _jaas(text: str, mechanism: str) -> dict[str, str]:
    """User, password and mechanism of a login module's line, as Java's clients have it. The text is never shown."""
    start = _MODULE.match(text)
    module = start[1].rsplit(".", 1)[-1] if start else ""
    if start is None or module not in ("PlainLoginModule", "ScramLoginModule"):
        raise ConfigError(
            f"option {_JAAS}: {module or 'no login module'}, where PlainLoginModule and ScramLoginModule (a user and a "
            "password) are taken; OAUTHBEARER has options kafka.sasl.oauthbearer.…"
        )
    settings = _settings(text, start.end())
    if not settings.get("username") or not settings.get("password"):
        raise ConfigError(f'option {_JAAS}: write {module} required username="…" password="…";')
    if module == "PlainLoginModule":
        mechanism = mechanism or PLAIN
    if not mechanism or (module == "PlainLoginModule") != (mechanism == PLAIN):
        raise ConfigError(f"option kafka.sasl.mechanism is {mechanism or 'missing'}, beside {module} in {_JAAS}")
    return {"sasl.mechanism": mechanism, "sasl.username": settings["username"], "sasl.password": settings["password"]}


def _settings(text: str, at: int) -> dict[str, str]:
    """The ``name="value"`` pairs from ``at`` to the semicolon; nothing where they do not end in one."""
    settings: dict[str, str] = {}
    while (found := _SETTING.match(text, at)) is not None:
        name, *values = found.groups()
        settings[name] = next(re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) for value in values if value is not None)
        at = found.end()
    return settings if _END.match(text, at) else {}
