"""OAUTHBEARER: which tokens are taken, where the keys come from, and how long a session lasts."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.security import oauth_keys
from mainstem.broker.security.oauth import OAUTHBEARER, OauthSettings, OauthTokens, remaining_ms
from mainstem.broker.security.oauth_keys import OauthKeys, parse_jwks_address
from mainstem.broker.security.security import oauth_tokens
from mainstem.errors import AuthenticationError, ConfigError, FrameError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mainstem.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.test_security import scenario, secured
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, served

HOUR_S = 3600
SETTINGS = OauthSettings(ISSUER, (AUDIENCE,), "sub", 30)


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture
def tokens(issuer: TokenIssuer, tmp_path: Path) -> OauthTokens:
    return OauthTokens(SETTINGS, keys_of(tmp_path, issuer).key)


def keys_of(directory: Path, *issuers: TokenIssuer) -> OauthKeys:
    path = directory / "jwks.json"
    path.write_text(json.dumps({"keys": [each.jwk for each in issuers]}))
    return OauthKeys(path.as_uri(), HOUR_S)


def message(token: str, user: str = "", more: str = "") -> bytes:
    return f"n,{f'a={user}' if user else ''},\x01auth=Bearer {token}\x01{more}\x01".encode()


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES256"])
def test_a_signed_token_names_its_user_and_its_end(algorithm: str, tmp_path: Path) -> None:
    issuer = TokenIssuer(algorithm=algorithm)
    found = OauthTokens(SETTINGS, keys_of(tmp_path, issuer).key).check(message(issuer.token("alice")))
    assert found.user == "alice"
    assert 500 < found.ends_s - time.time() < 601


def test_extensions_and_the_same_user_are_taken(issuer: TokenIssuer, tokens: OauthTokens) -> None:
    assert tokens.check(message(issuer.token(), "alice", "logicalCluster=x\x01")).user == "alice"
    with pytest.raises(AuthenticationError, match="another user"):
        tokens.check(message(issuer.token(), "bob"))


@pytest.mark.parametrize(
    "claims",
    [
        {"valid_s": -60},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": 1 << 40},
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "ANONYMOUS"},
        {"sub": "x" * 2000},
        {"sub": "\ud800"},
        {"exp": float("inf")},
        {"exp": float("nan")},
    ],
    ids=str,
)
def test_a_token_with_wrong_claims_is_refused(claims: dict[str, Any], issuer: TokenIssuer, tokens: OauthTokens) -> None:
    given = {"sub": "alice", **claims}
    unsigned = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + claims.get("valid_s", 600), **given}
    unsigned = {name: value for name, value in unsigned.items() if value is not None and name != "valid_s"}
    payload = base64.urlsafe_b64encode(json.dumps(unsigned).encode()).rstrip(b"=").decode()
    header = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"k1"}').rstrip(b"=").decode()
    signature = jwt.get_algorithm_by_name("RS256").sign(f"{header}.{payload}".encode(), issuer.key)
    token = f"{header}.{payload}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    with pytest.raises(AuthenticationError):
        tokens.check(message(token))


def test_a_token_without_a_near_end_gives_a_session_that_fits_the_answer(
    issuer: TokenIssuer, tokens: OauthTokens
) -> None:
    for far in (1 << 60, 1e300, 10**400):
        found = tokens.check(message(issuer.token(exp=far)))
        assert 0 < remaining_ms(found) < 1 << 63


def test_a_strange_key_is_left_out_and_the_others_are_used(issuer: TokenIssuer, tmp_path: Path) -> None:
    strange: list[dict[str, Any]] = [
        {},
        {"kty": 5},
        {"kty": "RSA", "n": 5, "e": "AQAB", "kid": "a"},
        {"kty": "RSA", "n": "!", "e": "", "kid": "b"},
        {"kty": "RSA", "alg": "none", "n": "AQAB", "e": "AQAB", "kid": "c"},
        {"kty": "EC", "crv": [], "x": "AQ", "y": "AQ", "kid": "d"},
        {**issuer.jwk, "kid": ["e"]},
        {"kty": "oct", "k": "AQAB", "kid": "f"},
    ]
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [*strange, issuer.jwk]}))
    tokens = OauthTokens(SETTINGS, OauthKeys(path.as_uri(), HOUR_S).key)
    assert tokens.check(message(issuer.token())).user == "alice"


def test_an_address_that_does_not_speak_http_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"SSH-2.0-x\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        keys = OauthKeys(f"http://127.0.0.1:{server.getsockname()[1]}/", HOUR_S)
        with pytest.raises(FrameError, match="cannot be read now"):
            keys.key("k1")
        thread.join(10)


def test_tokens_that_the_issuer_did_not_sign_are_refused(issuer: TokenIssuer, tokens: OauthTokens) -> None:
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600}
    forged = [
        TokenIssuer().token(),
        TokenIssuer("other").token(),
        jwt.encode(claims, "", "none", headers={"kid": "k1"}),
        jwt.encode(claims, issuer.jwk["n"], "HS256", headers={"kid": "k1"}),
        issuer.token()[:-8] + "AAAAAAAA",
        "a.b.c",
        "",
    ]
    for token in forged:
        with pytest.raises(AuthenticationError):
            tokens.check(message(token))


@pytest.mark.parametrize(
    "wrong", [b"", b"n,,\x01\x01", b"\0alice\0secret", b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01auth=Basic x\x01\x01"]
)
def test_messages_without_a_token_are_refused(wrong: bytes, tokens: OauthTokens) -> None:
    with pytest.raises(AuthenticationError, match="needs auth=Bearer"):
        tokens.check(wrong)


def test_a_long_token_is_refused_unread(tokens: OauthTokens) -> None:
    with pytest.raises(AuthenticationError, match="more than 16384 bytes"):
        tokens.check(message("x" * 20_000))


def test_a_new_key_is_read_from_the_issuer_when_a_token_names_it(
    issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = TokenIssuer("k2")
    documents = [issuer.document, second.document]
    with served(lambda: (200, documents.pop(0) if len(documents) > 1 else documents[0])) as (address, asked):
        tokens = OauthTokens(SETTINGS, OauthKeys(address, HOUR_S).key)
        for _ in range(3):
            tokens.check(message(issuer.token()))
        assert len(asked) == 1
        with pytest.raises(AuthenticationError, match="does not list"):
            tokens.check(message(second.token()))
        assert len(asked) == 1
        monkeypatch.setattr(oauth_keys, "_READ_AGAIN_S", 0.0)
        assert tokens.check(message(second.token())).user == "alice"
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (302, b""), (200, b"{}"), (200, b"[" * 100_000), (200, b'{"keys": []}' + b" " * (1 << 20))],
    ids=["fails", "redirects", "no keys", "nested", "too long"],
)
def test_an_address_without_usable_keys_refuses_no_token_and_keeps_the_former_keys(
    status: int, body: bytes, issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_keys, "_READ_AGAIN_S", 0.0)
    answers = [(200, issuer.document)]
    with served(lambda: answers[0]) as (address, asked):
        tokens = OauthTokens(SETTINGS, OauthKeys(address, 0.0).key)
        tokens.check(message(issuer.token()))
        answers[0] = (status, body)
        tokens.check(message(issuer.token()))
        with pytest.raises(FrameError, match="cannot be read now"):
            OauthTokens(SETTINGS, OauthKeys(address, 0.0).key).check(message(issuer.token()))
        assert "/elsewhere" not in asked


class SlowDocument:
    """A document that the issuer gives only after ``release``. ``asked``: a thread asks for it."""

    def __init__(self) -> None:
        self.data = b""
        self.asked = threading.Event()
        self.release = threading.Event()

    def answer(self) -> tuple[int, bytes]:
        self.asked.set()
        assert self.release.wait(60)
        return 200, self.data


@pytest.mark.parametrize("has_former_keys", [False, True])
def test_a_token_whose_key_is_just_being_read_waits_for_it(
    issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch, *, has_former_keys: bool
) -> None:
    monkeypatch.setattr(oauth_keys, "_WAIT_S", 60.0)
    document = SlowDocument()
    with served(document.answer) as (address, asked), ThreadPoolExecutor(2) as threads:
        tokens = OauthTokens(SETTINGS, OauthKeys(address, HOUR_S).key)
        if has_former_keys:
            document.data = TokenIssuer("former").document
            document.release.set()
            with pytest.raises(AuthenticationError, match="does not list"):
                tokens.check(message(issuer.token()))
            monkeypatch.setattr(oauth_keys, "_READ_AGAIN_S", 0.0)
            document.release.clear()
            document.asked.clear()
        document.data = issuer.document
        reading = threads.submit(tokens.check, message(issuer.token("alice")))
        assert document.asked.wait(60)
        waiting = threads.submit(tokens.check, message(issuer.token("bob")))
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        document.release.set()
        assert [reading.result(60).user, waiting.result(60).user] == ["alice", "bob"]
        assert len(asked) == 1 + has_former_keys


def test_a_slow_issuer_holds_up_no_token_whose_key_is_known(
    issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_keys, "_READ_AGAIN_S", 0.0)
    monkeypatch.setattr(oauth_keys, "_WAIT_S", 0.0)
    document, strange = SlowDocument(), TokenIssuer("strange")
    document.data = issuer.document
    document.release.set()
    with served(document.answer) as (address, _), ThreadPoolExecutor(1) as threads:
        tokens = OauthTokens(SETTINGS, OauthKeys(address, HOUR_S).key)
        tokens.check(message(issuer.token()))
        document.release.clear()
        document.asked.clear()
        reading = threads.submit(tokens.check, message(strange.token()))
        assert document.asked.wait(60)
        assert tokens.check(message(issuer.token())).user == "alice"
        with pytest.raises(FrameError, match="cannot be read now"):
            tokens.check(message(strange.token()))
        document.release.set()
        with pytest.raises(AuthenticationError, match="does not list"):
            reading.result(60)


def test_an_issuer_that_is_away_closes_the_connection_and_refuses_nothing(
    tmp_path: Path, issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_keys, "_READ_AGAIN_S", 0.0)
    answers = [(503, b"")]

    async def main(address: str) -> None:
        settings = {"sasl.enabled.mechanisms": OAUTHBEARER, "sasl.oauthbearer.jwks.endpoint.url": address}
        async with secured(tmp_path, settings=settings) as client:
            for is_away in (True, False):
                await client.connect()
                await client.request(SaslHandshakeRequest(mechanism=OAUTHBEARER), 1)
                client.send(SaslAuthenticateRequest(auth_bytes=message(issuer.token())), 2)
                if is_away:
                    assert await client.is_closed()
                    answers[0] = (200, issuer.document)
                else:
                    assert (await client.receive(ApiKey.SASL_AUTHENTICATE, 2)).body.error_code == 0

    with served(lambda: answers[0]) as (address, _):
        scenario(main, address)


def test_addresses_that_others_can_read_along_are_refused() -> None:
    for text in ("http://issuer.example/jwks", "ftp://x/y", "/jwks.json", "https://", "file://host/x"):
        with pytest.raises(ValueError, match="must be https"):
            parse_jwks_address(text)


def test_the_mechanism_needs_its_keys_at_the_start(tmp_path: Path) -> None:
    def start(**settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        oauth_tokens(BrokerConfig(tmp_path, settings=given), [OAUTHBEARER])

    with pytest.raises(ConfigError, match=r"set sasl\.oauthbearer\.jwks\.endpoint\.url"):
        start()
    with pytest.raises(ConfigError, match="No such file"):
        start(sasl_oauthbearer_jwks_endpoint_url=(tmp_path / "none").as_uri())
    assert oauth_tokens(BrokerConfig(tmp_path), ["PLAIN"]) is None
