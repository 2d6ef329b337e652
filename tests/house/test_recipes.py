"""The lists of files in CONTRIBUTING ("Adding …") are complete: no other file names what they add."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from mainstem.broker.configs.broker_config import SETTINGS
from mainstem.broker.configs.group_configs import GROUP_CONFIGS
from mainstem.pipelines.kinds import KINDS
from mainstem.views import requests
from mainstem.views.stores.store_kinds import store_class
from tests.house.sources import source_text

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mainstem"
HANDLERS = SOURCE / "broker" / "handlers"
APIS = sorted(path.stem for path in HANDLERS.glob("[a-z]*.py"))
# The connection serves two cases itself, before a request can be read.
_NAMED_BY_THE_CONNECTION = {"api_versions", "sasl_authenticate"}


@pytest.mark.parametrize("api", APIS)
def test_an_api_takes_a_message_and_a_handler_of_its_name(api: str) -> None:
    assert (SOURCE / "protocol" / "messages" / f"{api}.py").exists()
    assert len(re.findall(r"^API = Api\(", source_text(HANDLERS / f"{api}.py"), re.MULTILINE)) == 1


def test_no_other_module_names_a_handler() -> None:
    named = {
        name
        for path in SOURCE.rglob("*.py")
        if path.parent != HANDLERS
        for name in re.findall(r"broker\.handlers(?:\.| import )(\w+)", source_text(path))
    }
    assert named == _NAMED_BY_THE_CONNECTION


CONFIG_TABLES = {"broker_config.py", "group_settings.py", "security_settings.py"}
# Kafka has these, and clients ask for them; here they have one possible value.
ONLY_LISTED = {"default.replication.factor", "ssl.keystore.type", "ssl.truststore.type"}
# Read by the name of a group's config, or by a part of the name.
READ_BY_RULE = {name for each in GROUP_CONFIGS.values() for name in (each.setting, *(each.bounds or ())) if name} | {
    f"{quota}.{word}" for quota in ("quota", "controller.quota") for word in ("window.num", "window.size.seconds")
}
# What two modules need: the node's id, and the bound of a frame before and after authentication.
READ_TWICE = {"node.id", "socket.request.max.bytes"}


@pytest.mark.parametrize("name", [each.name for each in SETTINGS.values() if each.topic_config is None])
def test_a_config_of_the_broker_is_named_by_its_table_and_its_user_alone(name: str) -> None:
    naming = [path for path in (SOURCE / "broker").rglob("*.py") if f'"{name}"' in source_text(path)]
    users = [str(path.relative_to(SOURCE)) for path in naming if path.name not in CONFIG_TABLES]
    assert len(users) == (0 if name in ONLY_LISTED | READ_BY_RULE else 2 if name in READ_TWICE else 1), users


@pytest.mark.parametrize("request_class", [each for each in get_args(requests.Request) if hasattr(each, "HTTP")])
def test_a_view_query_is_named_by_its_stores_alone(request_class: type) -> None:
    name = re.compile(rf"\brequests(?: import .*|\.){request_class.__name__}\b")
    naming = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if name.search(source_text(path))}
    others = {path for path in naming if path.parts[:2] != ("views", "stores")}
    # An answer that has pages says where the next one begins.
    assert others <= ({Path("gateway/views/view_routes.py")} if request_class.HTTP.pages else set())


def test_every_file_that_a_recipe_names_exists() -> None:
    recipes = (ROOT / "CONTRIBUTING.md").read_text().partition("## Recipes")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([\w/]+/(?:[\w.]+\.(?:py|md))?)`", recipes))
    assert len(named) > 25
    places = {
        name: [ROOT / name, SOURCE / name, SOURCE.parent / name] for name in named if not re.search(r"[A-Z]{2}", name)
    }
    assert [name for name, paths in places.items() if not any(path.exists() for path in paths)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_store_of_a_view_kind_is_found_by_its_name(kind: type[Any]) -> None:
    name = kind.store or kind.kind
    assert store_class(kind).__name__ == "".join(map(str.capitalize, name.split("-"))) + "Store"
