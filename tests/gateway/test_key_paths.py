"""Keys in paths: any text is the key that it is, for the gate, the routes and the host behind the gateway alike.

Paths go over a socket as they are written here: clients resolve dot segments before they send anything.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import mainstem as ms
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.deploy import deploy
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served

SHOWN, HIDDEN = "key-paths-shown", "key-paths-hidden"
KEYS = ("a", "a\n", "a\nb", "\n", "é", "100%", "a#b?c")


@pytest.fixture(scope="module")
def api(
    session_log: Log, mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A gateway whose client may read the shown topic and view."""
    directory = tmp_path_factory.mktemp("key-paths")
    app = ms.App("key-paths-tests")
    for name in (SHOWN, HIDDEN):
        app.view(name, app.topic(name, schema="id STRING NOT NULL, said STRING", key="id"), ms.KeyValue())
    deploy(app, session_log)
    session_log.append(HIDDEN, {"id": "a", "said": "hidden"}, key="a")
    session_log.append_many(SHOWN, [(key, {"id": key, "said": f"shown {key}"}) for key in KEYS])
    token, text = new_token("reader", Grants(read=(f"topic:{SHOWN}", f"view:{SHOWN}*")))
    write_tokens(directory / "tokens.json", [token])
    with ViewHost(tuple(app.views.values()), mainstem_broker.bootstrap, directory) as host:
        for name, count in ((SHOWN, len(KEYS)), (HIDDEN, 1)):
            host.wait(
                name, lambda status, count=count: status.position.get(ms.TopicPartition(status.topic, 0)) == count
            )
        with listening_on(create_host_app(host), listen_unix(directory / "s")):
            views = ForwardingBackend([directory / "s"])
            with served(
                create_app(session_log, views, GatewayLimits(), tokens=TokenFile(directory / "tokens.json"))
            ) as client:
                client.headers["Authorization"] = f"Bearer {text}"
                yield client


def got(api: httpx.Client, target: str) -> tuple[int, Any]:
    """The answer to a request whose path is sent as it is."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    request += f"Authorization: {api.headers['Authorization']}\r\n\r\n"
    with socket.create_connection((api.base_url.host, api.base_url.port or 0), timeout=60) as connection:
        connection.sendall(request.encode())
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_who_asks_for_a_view_that_there_is_not_is_told_of_no_view_that_it_may_not_read(api: httpx.Client) -> None:
    status, problem = got(api, f"/views/{SHOWN}-2")
    assert (status, SHOWN in problem["detail"], HIDDEN in problem["detail"]) == (404, True, False)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_answered_with_its_own_records_and_row(api: httpx.Client, key: str) -> None:
    status, records = got(api, f"/topics/{SHOWN}/keys/{quote(key)}")
    assert (status, [record["value"]["said"] for record in records["records"]]) == (200, [f"shown {key}"])
    status, answer = got(api, f"/views/{SHOWN}/keys/{quote(key)}")
    assert (status, [row["said"] for row in answer["rows"]]) == (200, [f"shown {key}"])


@pytest.mark.parametrize("up", ["..", "%2e%2e", "%2E.", ".%2e", "..;"])
@pytest.mark.parametrize("slash", ["/", "%2F", "%5C", "//"])
def test_dot_segments_are_part_of_the_key_and_lead_nowhere(api: httpx.Client, up: str, slash: str) -> None:
    climbing = f"{up}{slash}{up}{slash}{HIDDEN}{slash}keys{slash}a"
    for path in (f"/views/{SHOWN}/keys/{climbing}", f"/topics/{SHOWN}/keys/{climbing}"):
        status, answer = got(api, path)
        assert status == 200, answer
        assert answer.get("rows", answer.get("records")) == []
    for path in (f"/views/{SHOWN}/{up}/{HIDDEN}/keys/a", f"/views/{up}/views/{HIDDEN}/keys/a"):
        status, answer = got(api, path)
        assert status in (403, 404), answer
