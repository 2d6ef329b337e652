"""SCRAM: the RFC's own example, both sides against one another, and everything that must be refused."""

from __future__ import annotations

import base64

import pytest

from mainstem.errors import AuthenticationError
from mainstem.protocol.scram import (
    MECHANISMS,
    SHA_256,
    ScramClient,
    ScramCredential,
    ScramServer,
    as_salt,
    credential_of,
    is_password,
    make_credential,
    salted_password,
)

# RFC 7677, section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_CREDENTIAL = credential_of(SHA_256, salted_password(SHA_256, "pencil", SALT, 4096), SALT, 4096)
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_server() -> ScramServer:
    return ScramServer(SHA_256, lambda name: RFC_CREDENTIAL, SERVER_NONCE)


def test_the_example_of_the_rfc() -> None:
    server = rfc_server()
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == CLIENT_FIRST
    assert server.step(CLIENT_FIRST) == SERVER_FIRST
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    assert server.step(CLIENT_FINAL) == SERVER_FINAL
    assert (server.is_done, server.username) == (True, "user")
    client.check(SERVER_FINAL)


def log_in(mechanism: str, credential: ScramCredential, name: str, password: str) -> ScramServer:
    server = ScramServer(mechanism, lambda asked: credential)
    client = ScramClient(mechanism, name, password)
    client.check(server.step(client.final(server.step(client.first()))))
    return server


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "José ☕"])
def test_the_right_password_logs_in(mechanism: str, name: str) -> None:
    server = log_in(mechanism, make_credential(mechanism, "päss,=word"), name, "päss,=word")
    assert (server.is_done, server.username) == (True, name)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_does_not(mechanism: str) -> None:
    with pytest.raises(AuthenticationError):
        log_in(mechanism, make_credential(mechanism, "right"), "alice", "wrong")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_password_is_known_by_its_credential(mechanism: str) -> None:
    credential = make_credential(mechanism, "right")
    assert is_password(mechanism, "right", credential)
    assert not is_password(mechanism, "wrong", credential)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,r=x",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,m=ext,n=user,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,n=\xff,r=x",
        b"n,,n=user,r=" + b"x" * 20_000,
    ],
)
def test_a_first_message_that_is_wrong_is_refused(first: bytes) -> None:
    with pytest.raises(AuthenticationError):
        rfc_server().step(first)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"rOprN", b"rOprX"),
        CLIENT_FINAL.replace(b"p=dHzb", b"p=dHzc"),
        CLIENT_FINAL.replace(b"p=dHzb", b"p=!!"),
        CLIENT_FINAL.partition(b",p=")[0],
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=",
    ],
)
def test_a_proof_that_is_wrong_is_refused(final: bytes) -> None:
    server = rfc_server()
    server.step(CLIENT_FIRST)
    with pytest.raises(AuthenticationError):
        server.step(final)
    assert not server.is_done


@pytest.mark.parametrize(
    "answer",
    [
        SERVER_FIRST.replace(b"rOprN", b"rOprX"),
        SERVER_FIRST.replace(b"i=4096", b"i=1"),
        SERVER_FIRST.replace(b"i=4096", b"i=999999999"),
        SERVER_FIRST.replace(b"i=4096", b"i=x"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"e=other-error",
    ],
)
def test_a_client_does_not_believe_every_answer(answer: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO").final(answer)


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    client.final(SERVER_FIRST)
    with pytest.raises(AuthenticationError):
        client.check(SERVER_FINAL.replace(b"6rri", b"7rri"))


def test_a_salt_looks_like_those_of_kafkas_tools() -> None:
    assert len(as_salt(bytes(32))) == len(as_salt(b"\xff" * 32)) == 26
    assert make_credential(SHA_256, "p").salt != make_credential(SHA_256, "p").salt
