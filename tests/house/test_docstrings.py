"""Docstrings of public names say what each argument is and which errors come, and their examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstem as ms
from mainstem import errors
from mainstem.client.admin.group_admin import GroupAdmin
from mainstem.client.http.requests import RequestClient, TopicRequests
from mainstem.client.http.views import ViewClient
from mainstem.testing import BrokerProcess, EmbeddedBroker
from tests.tlog.support import broker_on, make_key

DOCUMENTED = (ms.Log, ms.Position, ms.App, ViewClient, ms.Worker, ms.Codec, ms.Validator, RequestClient, TopicRequests)
DOCUMENTED += (EmbeddedBroker, BrokerProcess, GroupAdmin)
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


def test_the_examples_give_what_they_show(tmp_path: Path) -> None:
    make_key(tmp_path)
    with broker_on(tmp_path) as broker, ms.Log(broker.bootstrap) as log:
        log.create_topic("orders")
        log.create_topic("ledger", configs={"mainstem.verifiable": "true"})
        log.append("ledger", b"an entry")
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        names = {"ms": ms, "log": log, "app": ms.App("documentation")}
        for name, function in METHODS.items():
            text = (function.__doc__ or "").replace("localhost:9092", broker.bootstrap)
            found = doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0)
            runner.run(found, out=said.append)
    assert runner.tries > 10
    assert said == []
