"""Docstrings of public names say what each argument is and which errors come, and their examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import mainstem as ms
from mainstem import errors
from mainstem.client.admin.access_admin import AccessAdmin
from mainstem.client.admin.cluster_admin import ClusterAdmin
from mainstem.client.admin.group_admin import GroupAdmin
from mainstem.client.http.requests import RequestClient, TopicRequests
from mainstem.client.http.views import ViewClient
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.deploy import deploy
from mainstem.testing import BrokerProcess, EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served
from tests.support.eventually import eventually
from tests.tlog.support import make_key

DOCUMENTED = (ms.Log, ms.Position, ms.App, ViewClient, ms.Worker, ms.Codec, ms.Validator, RequestClient, TopicRequests)
DOCUMENTED += (EmbeddedBroker, BrokerProcess, GroupAdmin, ClusterAdmin, AccessAdmin)
"""The classes in Google's form, which the site shows as tables. Add those that you bring into it."""


DECLARED = (ms.KeyValue, ms.SQL, ms.Search, ms.Graph, ms.Metrics, ms.Lake, ms.Postgres, ms.MariaDB, ms.SQLite)
"""The kinds of views and sinks: the docstring of the class explains what it is declared with."""


def _methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for each in DOCUMENTED:
        for name, found in vars(each).items():
            function = getattr(found, "__func__", found)
            if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
                yield f"{each.__name__}.{name}", function


METHODS = {**dict(_methods()), "processing": ms.processing}


def _section(text: str, title: str) -> set[str]:
    """The names that a section of a docstring explains."""
    found = re.search(rf"^{title}:\n((?:    [^\n]*\n|\n)+)", inspect.cleandoc(text) + "\n", re.MULTILINE)
    return set(re.findall(r"^    (\w+):", found[1], re.MULTILINE)) if found else set()


def _raised(function: Callable[..., Any]) -> set[str]:
    """Our own errors that the function itself raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    named = {
        node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    }
    return {name for name in named if hasattr(errors, name)}


@pytest.mark.parametrize("name", METHODS)
def test_a_docstring_says_each_argument_and_error(name: str) -> None:
    function = METHODS[name]
    parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
    text = function.__doc__ or ""
    if len(parameters) > 1 and (text or not name.endswith("__init__")):
        assert _section(text, "Args") == parameters
    assert _raised(function) - _section(text, "Raises") == set()
    assert {each for each in _section(text, "Raises") if not hasattr(errors, each)} == set()


@pytest.mark.parametrize("kind", DECLARED)
def test_a_kind_says_what_it_is_declared_with(kind: type) -> None:
    assert _section(kind.__doc__ or "", "Args") == set(inspect.signature(kind).parameters)


LIFETIME = ("__init__", "start", "stop", "run", "close", "restart")
"""How an object is made and ended: the example of its class, or of its module's function, shows it."""
SHOWN_ELSEWHERE = {"Codec.json_values"}
"""It takes arrays of many records; the readers of topics call it."""


def test_every_method_has_an_example() -> None:
    """In a section that the site shows as code: one called ``Example`` would be read as Markdown."""
    shown = re.compile(r"^ *Examples:\n +>>> ", re.MULTILINE)
    lacking = {name for name, function in METHODS.items() if not shown.search(function.__doc__ or "")}
    assert {name for name in lacking if not name.endswith(LIFETIME)} == SHOWN_ELSEWHERE


FLIGHTS = (
    {"carrier": "UA", "delay": 2, "origin": "Newark", "dest": "Houston"},
    {"carrier": "AA", "delay": 33, "origin": "New York", "dest": "Chicago"},
    {"carrier": "B6", "delay": 5, "origin": "New York", "dest": "Newark"},
)


@contextmanager
def flights(log: ms.Log, directory: Path) -> Iterator[str]:
    """A topic of flights with a view of each kind that the examples ask, and the address of their gateway."""
    app = ms.App("flights")
    schema = "carrier STRING NOT NULL, delay INT, origin STRING, dest STRING"
    topic = app.topic("flights", schema=schema, key="carrier", partitions=1)
    app.view("carriers", topic, ms.KeyValue())
    app.view("delays", topic, ms.SQL())
    app.view("airports", topic, ms.Search("origin", "dest"))
    app.view("routes", topic, ms.Graph(source="origin", target="dest"))
    app.view("figures", topic, ms.Metrics(by="carrier", values="delay"))
    deploy(app, log)
    end = log.append_many("flights", [(str(flight["carrier"]), flight) for flight in FLIGHTS])
    with (
        ViewHost(tuple(app.views.values()), log.bootstrap, directory / "views") as host,
        listening_on(create_host_app(host), listen_unix(directory / "s")),
        served(create_app(log, ForwardingBackend([directory / "s"]), GatewayLimits())) as http,
    ):
        url = str(http.base_url)
        for view in app.views:
            eventually(lambda name=view: _position(url, name).covers(end), f"view {view} has all flights")
        yield url


def _position(url: str, view: str) -> ms.Position:
    return ms.Position.parse(ms.views(url)[view].status()["position"])


def test_the_examples_give_what_they_show(tmp_path: Path) -> None:
    make_key(tmp_path)
    settings = {"mainstem.signing.keys": str(tmp_path / "keys"), "super.users": "User:ANONYMOUS"}
    broker = EmbeddedBroker(tmp_path / "data", settings=settings)
    with ExitStack() as stack, broker, ms.Log(broker.bootstrap) as log:
        log.create_topic("orders")
        log.create_topic("ledger", configs={"mainstem.verifiable": "true"})
        log.append("ledger", b"an entry")
        url = stack.enter_context(flights(log, tmp_path))
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        names = {"ms": ms, "log": log, "app": ms.App("documentation"), "views": ms.views(url)}
        names["requests"] = ms.requests(url)
        for name, function in METHODS.items():
            text = (function.__doc__ or "").replace("localhost:9092", broker.bootstrap)
            found = doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0)
            runner.run(found, out=said.append)
    assert runner.tries > 10
    assert "".join(said) == ""
