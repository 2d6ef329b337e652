"""Azure's blob storage for tests: Azurite, Microsoft's own server, over a directory.

It is installed by ``make azure-server``. Without it, tests of Azure are skipped.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import shutil
import subprocess
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.ports import accepts, free_port

_MADE = Path(__file__).resolve().parents[2] / ".cache/azure-server/node_modules/azurite/dist/src/blob/main.js"
CONTAINER = "backups"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's account and its key, which its documentation publishes."""


class AzureServer:
    """A server with one container, from ``start`` to ``stop``."""

    def __init__(self, directory: Path) -> None:
        if not _MADE.is_file() or shutil.which("node") is None:
            pytest.skip(
                "Azurite, a server of Azure's blobs, is not here: make azure-server installs it (a minute, once)"
            )
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client of it needs."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self._port}/{ACCOUNT}",
        }

    def start(self) -> AzureServer:
        """Start it, and return when it has its container."""
        argv = ["node", str(_MADE), "--blobHost", "127.0.0.1", "--blobPort", str(self._port)]
        argv += ["--location", str(self._directory), "--disableTelemetry", "--silent", "--skipApiVersionCheck"]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: accepts(self._port), "Azurite accepts connections")
        self._make_container()
        return self

    def _make_container(self) -> None:
        """As a user's tools do it: obstore has no request for it. The signature is Azure's "Shared Key"."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        signed = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in headers.items())
        signed += f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
        headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
        assert connection.getresponse().status == 201
        connection.close()

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None
