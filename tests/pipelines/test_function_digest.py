"""Whether a function is the same, by what it does."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import pytest
from pyspark import cloudpickle

from mainstem.pipelines.function_digest import digest


def made(source: str, name: str = "f") -> Any:
    """What ``source`` defines, as a worker gets it: pickled by value."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(textwrap.dedent(source), "program.py", "exec"), names)
    return cloudpickle.loads(cloudpickle.dumps(names[name]))


BASE = """
LIMIT = 3
def helper(x): return x + LIMIT
def f(row, by=1):
    found = helper(row)
    return [found * by for _ in range(2)]
"""


@pytest.mark.parametrize(
    "source",
    [
        BASE,
        BASE.replace("found", "other"),
        BASE.replace("def f", "\n# a comment\ndef f"),
        BASE.replace("    found =", '    """What it does."""\n    found ='),
        BASE.replace("helper", "assistant"),
        BASE.replace("LIMIT", "MOST"),
        BASE.replace("(row, by", "(row: int, by"),
        "UNUSED = 1\n" + textwrap.dedent(BASE),
    ],
)
def test_how_it_is_written_does_not_count(source: str) -> None:
    assert digest(made(source)) == digest(made(BASE))


@pytest.mark.parametrize(
    "source",
    [
        BASE.replace("LIMIT = 3", "LIMIT = 4"),
        BASE.replace("x + LIMIT", "x - LIMIT"),
        BASE.replace("by=1", "by=2"),
        BASE.replace("range(2)", "range(3)"),
        BASE.replace("found * by", "found + by"),
    ],
)
def test_what_it_does_counts_however_deep(source: str) -> None:
    assert digest(made(source)) != digest(made(BASE))


def test_what_a_closure_and_a_partial_hold_counts() -> None:
    source = "def outer(n):\n def inner(x): return x + n\n return inner\n"
    one, other, again = (made(source + f"f = outer({n})") for n in (1, 2, 1))
    assert digest(one) == digest(again) != digest(other)
    assert digest(functools.partial(one, 1)) != digest(functools.partial(one, 2))


def test_a_class_counts_by_its_methods_and_an_instance_by_what_it_holds() -> None:
    source = "class C:\n def __init__(self, n): self.n = n\n def __call__(self, x): return x + self.n\nf = C(1)\n"
    assert digest(made(source)) == digest(made(source.replace("class C", "class D").replace("C(1)", "D(1)")))
    assert digest(made(source)) != digest(made(source.replace("C(1)", "C(2)")))
    assert digest(made(source)) != digest(made(source.replace("x + self.n", "x * self.n")))


def test_functions_that_call_each_other_have_an_end() -> None:
    source = "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)\nf = even\n"
    assert digest(made(source)) == digest(made(source))


def test_a_library_counts_by_its_name() -> None:
    assert digest(made("import json\nf = json.dumps")) != digest(made("import json\nf = json.loads"))
    assert digest(textwrap.dedent) == digest(textwrap.dedent)


def test_the_order_of_a_set_does_not_count() -> None:
    assert digest({"a", "b", "c"}) == digest({"c", "b", "a"}) != digest({"a", "b"})


def test_a_package_that_is_the_user_s_own_counts_by_what_it_does() -> None:
    assert digest(textwrap.dedent, own="textwrap") != digest(textwrap.indent, own="textwrap")
    assert digest(textwrap.dedent, own="textwrap") == digest(textwrap.dedent, own="textwrap") != digest(textwrap.dedent)
