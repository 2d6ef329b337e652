from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.errors import DefinitionError, QueryError
from mainstem.pipelines.kinds import Search
from mainstem.views.requests import SearchQuery
from mainstem.views.stores.search.search import SearchStore
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import apply, tombstone

AIRPORTS = {
    "JFK": {"faa": "JFK", "name": "John F Kennedy Intl", "alt": 13},
    "LGA": {"faa": "LGA", "name": "La Guardia", "alt": 22},
    "EWR": {"faa": "EWR", "name": "Newark Liberty Intl", "alt": 18},
    "KEN": {"faa": "KEN", "name": "Kennedy", "alt": 1},
}


def filled(path: Path) -> SearchStore:
    opened = SearchStore(path, StoreDefinition("airports", Search("name", "faa")))
    apply(opened, [(key.encode(), json.dumps(row).encode()) for key, row in AIRPORTS.items()])
    return opened


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchStore]:
    """One store for all tests that only read it."""
    opened = filled(tmp_path_factory.mktemp("search"))
    yield opened
    opened.close()


def found(store: SearchStore, q: str, limit: int = 20) -> list[str]:
    return [row["_key"] for row in store.query(SearchQuery(q, limit)).rows]


def test_words_are_found_in_every_field_best_first(store: SearchStore) -> None:
    assert found(store, "kennedy") == ["KEN", "JFK"]
    assert found(store, "lga") == ["LGA"]


def test_a_hit_is_the_whole_row_with_its_score(store: SearchStore) -> None:
    [row] = store.query(SearchQuery("guardia")).rows
    assert row.pop("_score") > 0
    assert row == {"_key": "LGA", **AIRPORTS["LGA"]}


@pytest.mark.parametrize(
    ("q", "keys"),
    [
        ('"john f kennedy"', {"JFK"}),
        ("name:intl", {"JFK", "EWR"}),
        ("name:intl AND name:newark", {"EWR"}),
        ("name:intl -newark", {"JFK"}),
        ("faa:kennedy", set()),
        ("_key:EWR", {"EWR"}),
        ("*", set(AIRPORTS)),
        ("* NOT kennedy", {"LGA", "EWR"}),
        ("nothing", set()),
    ],
)
def test_the_query_language(store: SearchStore, q: str, keys: set[str]) -> None:
    assert set(found(store, q)) == keys


def test_the_best_are_answered_up_to_the_limit(store: SearchStore) -> None:
    assert found(store, "kennedy", limit=1) == ["KEN"]


@pytest.mark.parametrize("q", ["", "  ", "(", 'name:"open', "nofield:x", "-kennedy", "_text:x", "name:[a TO", "name:*"])
def test_a_query_that_cannot_be_read_is_one_clear_error(store: SearchStore, q: str) -> None:
    with pytest.raises(QueryError) as caught:
        store.query(SearchQuery(q))
    assert "\n" not in str(caught.value)


def test_no_query_finds_the_bookmark(store: SearchStore) -> None:
    assert found(store, "_what:bookmark") == []
    assert len(found(store, "*")) == store.count() == len(AIRPORTS)


def test_an_updated_record_is_found_by_its_new_text_alone(tmp_path: Path) -> None:
    store = filled(tmp_path)
    apply(store, [(b"LGA", b'{"name": "Fiorello"}')], 4)
    assert (found(store, "guardia"), found(store, "fiorello")) == ([], ["LGA"])
    apply(store, [tombstone("LGA")], 5)
    assert found(store, "fiorello") == []
    store.close()


def test_values_that_are_no_text_are_searched_as_their_text(tmp_path: Path) -> None:
    store = SearchStore(tmp_path / "store", StoreDefinition("things", Search("thing")))
    apply(store, [(b"1", b'{"thing": 1963}'), (b"2", b'{"thing": ["red", "blue"]}'), (b"3", b'{"thing": null}')])
    assert (found(store, "1963"), found(store, "blue"), len(found(store, "*"))) == (["1"], ["2"], 3)
    store.close()


@pytest.mark.parametrize("name", ["_key", "_score", "_what", "_text", ""])
def test_a_field_name_that_is_taken_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be a field"):
        SearchStore(tmp_path / "store", StoreDefinition("things", Search(name)))


def test_a_value_s_own_score_and_key_give_way_to_the_hit_s(tmp_path: Path) -> None:
    store = SearchStore(tmp_path, StoreDefinition("airports", Search("name")))
    apply(store, [(b"a", b'{"name": "kennedy", "_score": "high"}'), (b"b", b'{"name": "kennedy", "_key": 5}')])
    found = store.query(SearchQuery("kennedy")).rows
    assert [row["_key"] for row in found] == ["a", "b"]
    assert all(isinstance(row["_score"], float) for row in found)
    store.close()


@pytest.mark.parametrize("q", ["kennedy^" + "9" * 400, "kennedy^0"])
def test_every_score_is_json(store: SearchStore, q: str) -> None:
    found = store.query(SearchQuery(q)).rows
    assert found
    json.dumps(found, allow_nan=False)


def test_a_commit_that_a_kill_cut_off_is_made_again(tmp_path: Path) -> None:
    """The kill comes before tantivy's swap of ``meta.json``, when the commit's other files are written."""
    filled(tmp_path / "whole").close()
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    whole = SearchStore(tmp_path / "whole", StoreDefinition("airports", Search("name", "faa")))
    apply(whole, [tombstone("JFK")])
    for path in (tmp_path / "whole").iterdir():
        if path.name != "meta.json" and not path.name.endswith(".lock"):
            shutil.copy(path, tmp_path / "killed")
    whole.close()
    killed = SearchStore(tmp_path / "killed", StoreDefinition("airports", Search("name", "faa")))
    assert found(killed, "kennedy") == ["KEN", "JFK"]
    apply(killed, [tombstone("JFK")])
    assert found(killed, "kennedy") == ["KEN"]
    killed.close()
