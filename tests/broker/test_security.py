"""TLS, certificates as principals, SASL, and what a connection may do before its user is proven."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.security.listeners import Listener, Protocol, parse_listeners
from mainstem.broker.server import Broker
from mainstem.errors import ConfigError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.describe_cluster import DescribeClusterRequest
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mainstem.protocol.messages.sasl_handshake import SaslHandshakeRequest
from mainstem.protocol.scram import MECHANISMS, SHA_256, SHA_512, ScramClient, make_credential
from mainstem.testing import ManualClock
from tests.broker.harness import TIMEOUT_S, Client, fetch_request
from tests.support.certificates import Authority

FAST = {"connection.failed.authentication.delay.ms": "0"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def keystore(authority: Authority) -> Path:
    return authority.keystore("localhost")


def trusting(authority: Authority, identity: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


class SecureClient(Client):
    tls: ssl.SSLContext | None = None

    async def connect(self) -> SecureClient:
        async with asyncio.timeout(TIMEOUT_S):
            self.reader, self.writer = await asyncio.open_connection(*self.address, ssl=self.tls)
        return self

    async def log_in(self, mechanism: str, user: str, password: str, version: int = 2) -> Any:
        """The last answer of SaslAuthenticate."""
        handshake = await self.request(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert handshake.error_code == 0, handshake
        if mechanism == "PLAIN":
            return await self.token(f"\0{user}\0{password}".encode(), version)
        scram = ScramClient(mechanism, user, password)
        first = await self.token(scram.first(), version)
        answer = await self.token(scram.final(first.auth_bytes), version)
        if answer.error_code == 0:
            scram.check(answer.auth_bytes)
        return answer

    async def token(self, data: bytes, version: int = 2) -> Any:
        return await self.request(SaslAuthenticateRequest(auth_bytes=data), version)


@asynccontextmanager
async def secured(
    data_dir: Path,
    protocol: Protocol = Protocol.SASL_PLAINTEXT,
    settings: dict[str, str] | None = None,
    *,
    clock: ManualClock | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[SecureClient]:
    """A broker with a listener of ``protocol``; a client of it that is not connected. alice's password is ``right``."""
    listeners = (Listener(protocol, "127.0.0.1", 0),)
    broker = Broker(BrokerConfig(data_dir, settings={**FAST, **(settings or {})}, listeners=listeners), clock=clock)
    address = await broker.start()
    try:
        changes = {("alice", name): make_credential(name, "right") for name in MECHANISMS}
        broker.node.security.credentials.change(changes)
        client = SecureClient(address, broker)
        client.tls = tls
        yield client
    finally:
        await broker.stop()


def scenario(body: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    asyncio.run(body(*arguments))


# ---- users


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "PLAIN"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_right_password_opens_the_log(tmp_path: Path, mechanism: str, version: int) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            await client.connect()
            answer = await client.log_in(mechanism, "alice", "right", version)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
            await client.create_topic("t")
            assert (await client.produce("t", b"v" * 100_000)).error_code == 0

    scenario(main)


def test_an_answer_takes_no_place_from_the_request_that_comes_behind_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, settings={"queued.max.request.bytes": "100000"}) as client:
            memory = client.broker.node.network.request_memory

            async def alice() -> Client:
                other = SecureClient(client.address, client.broker)
                await other.connect()
                assert (await other.log_in("PLAIN", "alice", "right")).error_code == 0
                return other

            async def until(is_so: Callable[[], bool]) -> None:
                async with asyncio.timeout(TIMEOUT_S):
                    while not is_so():
                        await asyncio.sleep(0)

            large, favoured, waiting, writing = [await alice() for _ in range(4)]
            await writing.create_topic("t")
            large.writer.write(struct.pack(">i", 60_000) + bytes(20_000))
            await until(lambda: memory.coming_bytes >= 60_000)
            full = memory.coming_bytes
            favoured.send(fetch_request("t", 0, max_wait_ms=60_000), 11)
            favoured.writer.write(struct.pack(">i", 60_000) + bytes(100))
            await until(lambda: memory.coming_bytes > full)
            full = memory.coming_bytes
            waiting.writer.write(struct.pack(">i", 60_000) + bytes(100))
            await until(lambda: any(each._memory.is_waiting for each in client.broker.connections))
            assert (await writing.produce("t", b"v")).error_code == 0
            assert (await favoured.receive(ApiKey.FETCH, 11)).body.error_code == 0
            assert memory.coming_bytes == full
            for each in (large, favoured, waiting, writing):
                each.close()

    scenario(main)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "PLAIN"])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answers(tmp_path: Path, mechanism: str) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            answers = []
            for user in ("alice", "nobody"):
                await client.connect()
                answers.append(await client.log_in(mechanism, user, "wrong"))
                assert await client.is_closed()
            assert answers[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answers[0] == answers[1]

    scenario(main)


def test_an_unknown_user_has_the_same_salt_again_also_after_a_restart(tmp_path: Path) -> None:
    async def salt(user: str) -> str:
        async with secured(tmp_path) as client:
            await client.connect()
            await client.request(SaslHandshakeRequest(mechanism=SHA_256), 1)
            answer = await client.token(ScramClient(SHA_256, user, "x").first())
            return dict(part.split("=", 1) for part in answer.auth_bytes.decode().split(","))["s"]

    salts = [asyncio.run(salt("nobody")) for _ in range(2)]
    assert salts[0] == salts[1]
    assert len(salts[0]) == len(asyncio.run(salt("alice")))


def test_an_unknown_user_is_asked_for_as_many_iterations_as_a_real_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            changes = {("alice", SHA_256): make_credential(SHA_256, "right", 8192)}
            client.broker.node.security.credentials.change(changes)
            asked = set()
            for user in ("alice", "nobody", "somebody", "else"):
                await client.connect()
                await client.request(SaslHandshakeRequest(mechanism=SHA_256), 1)
                answer = await client.token(ScramClient(SHA_256, user, "x").first())
                asked.add(dict(part.split("=", 1) for part in answer.auth_bytes.decode().split(","))["i"])
            assert asked == {"8192"}

    scenario(main)


def test_a_mechanism_that_is_not_enabled_is_told_which_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, settings={"sasl.enabled.mechanisms": SHA_512}) as client:
            await client.connect()
            answer = await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [SHA_512])
            assert await client.is_closed()

    scenario(main)


def test_bare_tokens_follow_a_handshake_of_version_0(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            await client.connect()
            await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 0)
            token = b"\0alice\0right"
            client.writer.write(struct.pack(">i", len(token)) + token)
            assert await client.receive_frame() == b""
            await client.create_topic("t")

    scenario(main)


def test_a_wrong_bare_token_is_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            await client.connect()
            await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 0)
            token = b"\0alice\0wrong"
            client.writer.write(struct.pack(">i", len(token)) + token)
            assert await client.is_closed()

    scenario(main)


def test_before_the_user_is_proven_nothing_else_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            await client.connect()
            assert await client.request(ApiVersionsRequest(client_software_name="", client_software_version=""), 3)
            client.send(MetadataRequest(topics=None), 12)
            assert await client.is_closed()

    scenario(main)


def test_a_request_behind_a_token_waits_for_its_verdict(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            for password, is_served in (("right", True), ("wrong", False)):
                await client.connect()
                await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                client.send(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2)
                client.send(MetadataRequest(topics=None), 12)
                answer = await client.receive(ApiKey.SASL_AUTHENTICATE, 2)
                assert (answer.body.error_code == 0) is is_served
                if is_served:
                    assert (await client.receive(ApiKey.METADATA, 12)).body.topics == []
                else:
                    assert await client.is_closed()

    scenario(main)


def test_a_large_frame_before_the_user_is_proven_ends_the_connection_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            await client.connect()
            client.writer.write(struct.pack(">i", 100_000))
            assert await client.is_closed()
            assert client.broker.node.network.request_memory.used_bytes == 0

    scenario(main)


def test_who_does_not_prove_a_user_in_time_is_let_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, settings={"mainstem.authentication.timeout.ms": "1"}) as client:
            await client.connect()
            assert await client.is_closed()

    scenario(main)


def test_a_session_ends_unless_the_same_user_authenticates_again(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with secured(tmp_path, settings={"connections.max.reauth.ms": "60000"}, clock=clock) as client:
            await client.connect()
            assert (await client.log_in(SHA_256, "alice", "right")).session_lifetime_ms == 60_000
            clock.advance(50)
            assert (await client.log_in(SHA_256, "alice", "right")).session_lifetime_ms == 60_000
            clock.advance(50)
            await client.create_topic("t")
            clock.advance(11)
            client.send(MetadataRequest(topics=None), 12)
            assert await client.is_closed()

    scenario(main)


def test_another_user_cannot_take_a_session_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, settings={"connections.max.reauth.ms": "60000"}) as client:
            client.broker.node.security.credentials.change({("bob", SHA_256): make_credential(SHA_256, "right")})
            await client.connect()
            await client.log_in(SHA_256, "alice", "right")
            assert (await client.log_in(SHA_256, "bob", "right")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()

    scenario(main)


def test_who_is_proven_need_not_begin_again_when_sessions_do_not_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            await client.connect()
            await client.log_in(SHA_256, "alice", "right")
            again = await client.request(SaslHandshakeRequest(mechanism=SHA_256), 1)
            assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert (await client.token(b"")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.is_closed()

    scenario(main)


def test_users_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path) as client:
            client.broker.node.security.credentials.change({("bob", SHA_256): make_credential(SHA_256, "secret")})
        async with secured(tmp_path) as client:
            await client.connect()
            assert (await client.log_in(SHA_256, "bob", "secret")).error_code == 0
        assert not any(b'secret"' in path.read_bytes() for path in tmp_path.rglob("*.log"))

    scenario(main)


# ---- TLS


def tls_settings(keystore: Path, **more: str) -> dict[str, str]:
    return {"ssl.keystore.location": str(keystore), **{name.replace("_", "."): text for name, text in more.items()}}


def test_tls_and_a_password(tmp_path: Path, authority: Authority, keystore: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, Protocol.SASL_SSL, tls_settings(keystore), tls=trusting(authority)) as client:
            await client.connect()
            await client.log_in(SHA_512, "alice", "right")
            await client.create_topic("t")
            assert (await client.produce("t", b"v" * 900_000)).error_code == 0
            assert await client.values("t") == [b"v" * 900_000]

    scenario(main)


def test_a_client_that_speaks_no_tls_gets_nothing(tmp_path: Path, keystore: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, Protocol.SSL, tls_settings(keystore)) as client:
            await client.connect()
            client.send(MetadataRequest(topics=None), 12)
            assert await client.is_closed()

    scenario(main)


def test_an_older_tls_is_refused(tmp_path: Path, authority: Authority, keystore: Path) -> None:
    async def main() -> None:
        tls = trusting(authority)
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
        settings = tls_settings(keystore, ssl_enabled_protocols="TLSv1.3")
        async with secured(tmp_path, Protocol.SSL, settings, tls=tls) as client:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await client.connect()

    scenario(main)


def test_a_handshake_that_stands_still_is_ended(tmp_path: Path, keystore: Path) -> None:
    async def main() -> None:
        settings = tls_settings(keystore, mainstem_authentication_timeout_ms="1")
        async with secured(tmp_path, Protocol.SSL, settings) as client:
            await client.connect()
            client.writer.write(b"\x16\x03\x01")
            assert await client.is_closed()

    scenario(main)


MUTUAL = {"ssl_client_auth": "required"}


async def principal(client: SecureClient) -> str:
    """Who the broker takes the connected client for."""
    await client.request(ApiVersionsRequest(client_software_name="", client_software_version=""), 3)
    (connection,) = client.broker.connections
    return str(connection._session.principal)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", "User:CN=Alice,OU=Log\\, Team,O=Example,C=DE"),
        ("RULE:^CN=([^,]*),.*$/$1/L", "User:alice"),
        ("RULE:^CN=Bob.*$/bob/,RULE:^CN=(.*?),OU=.*$/$1@x/U, DEFAULT", "User:ALICE@X"),
    ],
)
def test_a_certificates_name_is_its_principal(
    tmp_path: Path, authority: Authority, keystore: Path, rules: str, expected: str
) -> None:
    async def main() -> None:
        identity = authority.issue("alice", "/C=DE/O=Example/OU=Log, Team/CN=Alice")
        trust = str(authority.certificate)
        settings = tls_settings(keystore, **MUTUAL, ssl_truststore_location=trust, ssl_principal_mapping_rules=rules)
        async with secured(tmp_path, Protocol.SSL, settings, tls=trusting(authority, identity)) as client:
            await client.connect()
            assert await principal(client) == expected

    scenario(main)


async def is_let_in(client: SecureClient) -> bool:
    """Whether TLS succeeds and a request is answered: with TLS 1.3 a refusal comes after the client's handshake."""
    try:
        await client.connect()
        await client.request(ApiVersionsRequest(client_software_name="", client_software_version=""), 3)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False
    return True


def test_only_certificates_of_the_right_authority_are_let_in(
    tmp_path: Path, authority: Authority, keystore: Path
) -> None:
    async def main() -> None:
        other = Authority(tmp_path / "other")
        identities = {
            "good": authority.issue("good"),
            "none": None,
            "expired": authority.issue("expired", days=-1),
            "foreign": other.issue("foreign"),
        }
        settings = tls_settings(keystore, **MUTUAL, ssl_truststore_location=str(authority.certificate))
        async with secured(tmp_path / "data", Protocol.SSL, settings) as client:
            found = {}
            for name, identity in identities.items():
                client.tls = trusting(authority, identity)
                found[name] = await is_let_in(client)
            assert found == {"good": True, "none": False, "expired": False, "foreign": False}

    scenario(main)


def test_a_certificate_that_is_only_asked_for_may_be_missing(
    tmp_path: Path, authority: Authority, keystore: Path
) -> None:
    async def main() -> None:
        settings = tls_settings(
            keystore, ssl_client_auth="requested", ssl_truststore_location=str(authority.certificate)
        )
        async with secured(tmp_path, Protocol.SSL, settings, tls=trusting(authority)) as client:
            await client.connect()
            assert await principal(client) == "User:ANONYMOUS"

    scenario(main)


def test_new_certificates_and_authorities_are_used_without_a_restart(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        other = Authority(tmp_path / "other", "other")
        keystore, trust = tmp_path / "keystore.pem", tmp_path / "trust.pem"
        shutil.copy(authority.keystore("localhost"), keystore)
        shutil.copy(authority.certificate, trust)
        old, new = authority.issue("old"), other.issue("new")
        settings = tls_settings(keystore, **MUTUAL, ssl_truststore_location=str(trust))
        async with secured(tmp_path / "data", Protocol.SSL, settings) as client:
            client.tls = trusting(authority, old)
            assert await is_let_in(client)
            shutil.copy(other.keystore("localhost"), keystore)
            shutil.copy(other.certificate, trust)
            client.broker.node.security.renew_certificates()
            assert not await is_let_in(client)  # it does not believe the new one
            client.tls = trusting(other, old)
            assert not await is_let_in(client)  # and is no longer believed
            client.tls = trusting(other, new)
            assert await is_let_in(client)
            keystore.write_text("nonsense")
            client.broker.node.security.renew_certificates()
            assert await is_let_in(client)  # what cannot be used changes nothing

    scenario(main)


def test_a_key_with_a_password_that_stands_in_a_file(tmp_path: Path, authority: Authority) -> None:
    async def main() -> None:
        certificate, key = authority.issue("locked", password="open sesame")
        (tmp_path / "password").write_text("open sesame\n")
        settings = {
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
            "ssl.key.password": f"${{file:{tmp_path / 'password'}}}",
        }
        async with secured(tmp_path / "data", Protocol.SSL, settings, tls=trusting(authority)) as client:
            assert await is_let_in(client)

    scenario(main)


# ---- listeners


def test_each_listeners_clients_are_told_its_own_address(tmp_path: Path) -> None:
    async def main() -> None:
        listeners = parse_listeners("127.0.0.1:0,PLAINTEXT://localhost:0,SASL_PLAINTEXT://127.0.0.1:0")
        listeners = (listeners[0], Listener(Protocol.PLAINTEXT, "0.0.0.0", 0), listeners[2])
        broker = Broker(BrokerConfig(tmp_path, listeners=listeners, insecure=True))
        await broker.start()
        try:
            for listener, expected in zip(broker.listeners[:2], ("127.0.0.1", "127.0.0.1"), strict=True):
                client = await Client(("127.0.0.1", listener.port), broker).connect()
                told = (await client.request(MetadataRequest(topics=[]), 12)).brokers[0]
                assert (told.host, told.port) == (expected, listener.port)
                cluster = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
                assert (cluster.brokers[0].host, cluster.brokers[0].port) == (expected, listener.port)
                found = await client.request(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), 4)
                assert (found.coordinators[0].host, found.coordinators[0].port) == (expected, listener.port)
        finally:
            await broker.stop()

    scenario(main)


def test_what_clients_are_told_can_be_said() -> None:
    listeners = parse_listeners("127.0.0.1:9092, SASL_SSL://0.0.0.0:9093", "SASL_SSL://log.example.com:443")
    assert [listener.advertised for listener in listeners] == [None, ("log.example.com", 443)]
    assert [str(listener) for listener in listeners] == ["127.0.0.1:9092", "SASL_SSL://0.0.0.0:9093"]


@pytest.mark.parametrize(
    ("listen", "advertise", "says"),
    [
        ("", "", "HOST:PORT"),
        ("TLS://127.0.0.1:1", "", "TLS"),
        ("SSL://127.0.0.1", "", "HOST:PORT"),
        ("127.0.0.1:1", "SSL://x:1", "nothing listens"),
    ],
)
def test_a_listener_that_cannot_be_is_refused(listen: str, advertise: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_listeners(listen, advertise)


@pytest.mark.parametrize(
    ("listen", "settings", "is_open"),
    [
        ("PLAINTEXT://0.0.0.0:1", {}, True),
        ("SASL_PLAINTEXT://0.0.0.0:1", {}, True),
        ("SSL://0.0.0.0:1", {}, True),
        ("SSL://0.0.0.0:1", {"ssl.client.auth": "requested"}, True),
        ("SSL://0.0.0.0:1", {"ssl.client.auth": "required"}, False),
        ("SASL_SSL://0.0.0.0:1", {}, False),
        ("SASL_PLAINTEXT://127.0.0.1:1", {}, False),
        ("127.0.0.1:1,PLAINTEXT://10.0.0.1:1", {}, True),
    ],
)
def test_another_address_than_loopback_needs_tls_and_users(
    tmp_path: Path, listen: str, settings: dict[str, str], is_open: bool
) -> None:
    listeners = parse_listeners(listen)
    if is_open:
        with pytest.raises(ConfigError, match="insecure"):
            BrokerConfig(tmp_path, settings=settings, listeners=listeners)
    BrokerConfig(tmp_path, settings=settings, listeners=listeners, insecure=is_open)


@pytest.mark.parametrize("missing", ["keystore", "truststore", "wrong file"])
def test_tls_that_cannot_be_is_refused_at_start(tmp_path: Path, keystore: Path, missing: str) -> None:
    settings = {
        "keystore": {},
        "truststore": {"ssl.keystore.location": str(keystore), "ssl.client.auth": "required"},
        "wrong file": {"ssl.keystore.location": os.devnull},
    }[missing]

    async def main() -> None:
        config = BrokerConfig(tmp_path, settings=settings, listeners=parse_listeners("SSL://127.0.0.1:0"))
        with pytest.raises(ConfigError):
            await Broker(config).start()
        broker = Broker(BrokerConfig(tmp_path, port=0))  # and the directory is free
        await broker.start()
        await broker.stop()

    scenario(main)


def test_a_secret_setting_is_told_to_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured(tmp_path, Protocol.PLAINTEXT, {"ssl.key.password": "open sesame"}) as client:
            await client.connect()
            asked = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["ssl.key.password"])
            request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
            (entry,) = (await client.request(request, 4)).results[0].configs
            assert (entry.value, entry.is_sensitive) == (None, True)
            assert [synonym.value for synonym in entry.synonyms] == [None, None]

    scenario(main)
