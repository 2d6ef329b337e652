"""Certificates for tests, made by the openssl command: authorities, servers, clients, expired ones."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a directory; ``certificate`` is what the other side has to believe."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.certificate = directory / f"{name}.pem"
        self._key = directory / f"{name}.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-keyout", self._key, "-out", self.certificate, "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # else Python 3.13 does not trust it
        )

    def issue(self, name: str, subject: str = "", *, days: int = 2, password: str = "") -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 and localhost, and its key; with ``days`` below 0 it has expired."""
        key, request, certificate = (self.directory / f"{name}.{ending}" for ending in ("key", "csr", "crt"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", key, "-out", request, "-subj", subject or f"/CN={name}"),
        )
        validity = ["-days", str(days)]
        if days < 0:
            validity = ["-not_before", "20200101000000Z", "-not_after", "20200201000000Z"]
        self._sign(request, certificate, extensions, validity)
        if password:
            plain = key.read_text()
            key.unlink()
            _openssl("ec", "-aes256", "-out", key, "-passout", f"pass:{password}", stdin=plain)
        return certificate, key

    def _sign(self, request: Path, certificate: Path, extensions: Path, validity: list[str]) -> None:
        if validity[0] == "-days":
            _openssl(
                *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
                *("-out", certificate, "-extfile", extensions, *validity),
            )
            return
        # Only ``openssl ca`` can date a certificate back, in all versions.
        (self.directory / "index.txt").write_text("")
        (self.directory / "serial").write_text("01\n")
        configuration = self.directory / "ca.cnf"
        configuration.write_text(
            f"[ca]\ndefault_ca=c\n[c]\nnew_certs_dir={self.directory}\ndatabase={self.directory}/index.txt\n"
            f"serial={self.directory}/serial\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
        )
        _openssl(
            *("ca", "-batch", "-notext", "-config", configuration, "-cert", self.certificate, "-keyfile", self._key),
            *("-in", request, "-out", certificate, "-extfile", extensions),
            *("-startdate", validity[1], "-enddate", validity[3]),
        )

    def keystore(self, name: str, subject: str = "", *, days: int = 2) -> Path:
        """One PEM file with a key and its certificate, as Kafka's PEM keystores are."""
        certificate, key = self.issue(name, subject, days=days)
        store = self.directory / f"{name}.keystore.pem"
        store.write_text(key.read_text() + certificate.read_text())
        return store


def _openssl(*arguments: object, stdin: str | None = None) -> None:
    done = subprocess.run(
        ["openssl", *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
