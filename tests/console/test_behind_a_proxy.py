"""The gateway and its console behind nginx, configured as the page says."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.server import process
from mainstem.gateway.server.serving import listen_tcp
from tests.console.test_access import signed_in
from tests.house.pages import ROOT, blocks_of, lines_of_shell
from tests.node.page_session import PageSession
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.ports import accepts, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage

NAME = "log.localhost"
"""A name that browsers take to loopback."""
PAGE = ROOT / "docs/howto/reverse-proxy.md"
MAIN = """
daemon off;
error_log stderr;
pid {directory}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
    uwsgi_temp_path {directory}; scgi_temp_path {directory};
    {servers}
}}
"""


@contextmanager
def nginx(directory: Path, gateway_url: str) -> Iterator[int]:
    """Nginx with the configuration of the page, between a port of its own and the gateway; its port."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    certificate, key = Authority(directory / "ca").issue("proxy")
    port = free_port()
    [servers] = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for said, here in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("log.example.com;", f"{NAME};"),
        ("/etc/ssl/log.example.com.pem", str(certificate)),
        ("/etc/ssl/log.example.com.key", str(key)),
        ("http://127.0.0.1:8080", gateway_url),
    ):
        assert said in servers
        servers = servers.replace(said, here)
    configuration = directory / "nginx.conf"
    configuration.write_text(MAIN.format(directory=directory, servers=servers))
    process = subprocess.Popen([program, "-c", str(configuration), "-p", str(directory)], stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: accepts(port), "nginx listens", 30)
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.browser
def test_a_page_signs_in_and_changes_the_log_through_the_proxy(new_page: NewPage, tmp_path: Path) -> None:
    [commands] = [block for block in blocks_of(PAGE) if block.mark == "node"]
    create, serve = lines_of_shell(commands.text)
    with PageSession(tmp_path, {"log.example.com": NAME}, console=True) as session:
        secret = session.line(create).split()[-1]
        session.line(serve)
        url = f"http://{session.http}"
        with Log(session.log) as log, nginx(tmp_path, url) as port:
            log.create_topic("orders")
            signs_in_and_changes(
                new_page(ignore_https_errors=True), url, port, secret, tmp_path / "ca" / "authority.pem"
            )


def signs_in_and_changes(page: Page, url: str, port: int, secret: str, authority: Path) -> None:
    signed_in(page, f"https://{NAME}:{port}/console/topics", secret)
    status = page.evaluate(
        """async (secret) => (await fetch('/topics/orders/records', {
            method: 'POST', headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + secret},
            body: JSON.stringify({records: [{value: 1}]}),
        })).status""",
        secret,
    )
    assert status == 201
    trusting = ssl.create_default_context(cafile=str(authority))
    headers = {"Host": f"{NAME}:{port}", "Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting, headers=headers, timeout=60) as api:
        new = {"name": "reader", "read": ["*"]}
        made = api.post("/tokens", json=new)
        assert made.status_code == 201, made.text
        assert api.get("/topics", headers={"Host": "other.example"}).status_code == 421
    forged = {"Host": NAME, "Authorization": f"Bearer {secret}", "X-Forwarded-For": "192.0.2.1"}
    refused = httpx.post(f"{url}/tokens", json={"name": "x", "read": ["*"]}, headers=forged, timeout=60)
    assert (refused.status_code, "TLS" in refused.json()["detail"]) == (403, True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("https://log.example.com", "invalid host name 'https://log.example.com': give the name alone"),
        ("log.example.com:443", "invalid host name"),
        ("*", "invalid host name"),
        ("log.example.com", "require tokens"),
    ],
)
def test_a_name_that_cannot_be_served_is_one_clear_line(
    name: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listen_tcp("127.0.0.1:0", insecure=False) as listening:
        monkeypatch.setattr(process, "listen_tcp", lambda *_, **__: listening)
        assert process.main(["--bootstrap", "127.0.0.1:1", "--http", "127.0.0.1:0", "--host-name", name]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert words in line
