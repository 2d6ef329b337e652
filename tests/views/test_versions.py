from __future__ import annotations

import json
from pathlib import Path, PurePath

import pytest

from mainstem.durable_files import LOCAL_FILES, NewFile
from mainstem.errors import StorageError, ViewStoppedError
from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Lake, Metrics, Search
from mainstem.schema.infer import schema_of
from mainstem.views.stores.store import StoreDefinition
from mainstem.views.versions.versions import Versions, check_definition

KEY_VALUE = StoreDefinition("v", KeyValue())


def test_a_view_has_no_version_at_first(tmp_path: Path) -> None:
    assert Versions(tmp_path).current() is None


def test_the_current_version_is_the_one_that_was_made_current(tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    first, second = versions.create("t", KEY_VALUE), versions.create("t", KEY_VALUE)
    versions.make_current(first)
    assert Versions(tmp_path).current() == first
    versions.make_current(second)
    assert Versions(tmp_path).current() == second


def test_a_rebuild_beside_the_first_opening_gets_a_version_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    listed = Path.glob

    def glob(self: Path, pattern: str) -> list[Path]:
        found = list(listed(self, pattern))
        if not opened:
            opened.append(tmp_path)
            opened.append(Versions(tmp_path).create("t", KEY_VALUE))  # the other thread, between the look and the step
        return found

    monkeypatch.setattr(Path, "glob", glob)
    rebuilt = Versions(tmp_path).create("t", KEY_VALUE)
    assert [opened[1].name, rebuilt.name] == ["v000001", "v000002"]


def test_a_directory_that_leads_nowhere_is_an_error_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "view"
    directory.symlink_to(tmp_path / "unmounted")
    with pytest.raises(FileExistsError):
        Versions(directory).create("t", KEY_VALUE)


def test_what_a_crash_left_over_is_swept_away(tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    versions.make_current(current := versions.create("t", KEY_VALUE))
    versions.create("t", KEY_VALUE)
    versions.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", current.name]


def test_a_current_version_that_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "current").write_text("v000007\n")
    with pytest.raises(StorageError, match="v000007"):
        Versions(tmp_path).current()


def graph(source: str, target: str) -> StoreDefinition:
    return StoreDefinition("v", Graph(source=source, target=target))


def sql(ddl: str) -> StoreDefinition:
    return StoreDefinition("v", SQL(), schema_of(ddl))


CHANGES = {
    "topic": ("t", KEY_VALUE, "other", KEY_VALUE),
    "kind": ("t", KEY_VALUE, "t", StoreDefinition("v", Search("a"))),
    "fields": ("t", StoreDefinition("v", Search("a")), "t", StoreDefinition("v", Search("a", "b"))),
    "ends": (
        "t",
        StoreDefinition("v", Graph(source="a", target="b")),
        "t",
        StoreDefinition("v", Graph(source="b", target="a")),
    ),
    "schema": (
        "t",
        StoreDefinition("v", SQL(), schema_of("a INT")),
        "t",
        StoreDefinition("v", SQL(), schema_of("a STRING")),
    ),
}


def test_a_metrics_view_depends_on_which_of_its_values_are_decimals_alone(tmp_path: Path) -> None:
    def definition(ddl: str) -> StoreDefinition:
        return StoreDefinition("v", Metrics(values="fare"), schema_of(ddl))

    path = Versions(tmp_path).create("t", definition("fare DOUBLE"))
    check_definition(path, "t", definition("fare INT, tax DECIMAL(5,2)"))
    with pytest.raises(ViewStoppedError, match=r"decimals.*DECIMAL\(5,2\).*rebuild"):
        check_definition(path, "t", definition("fare DECIMAL(5,2)"))
    path = Versions(tmp_path).create("t", definition("fare DECIMAL(5,2)"))
    with pytest.raises(ViewStoppedError, match=r"decimals.*rebuild"):
        check_definition(path, "t", definition("fare DOUBLE"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_version_for_another_definition_asks_for_a_rebuild(tmp_path: Path, change: str) -> None:
    topic, definition, other_topic, other_definition = CHANGES[change]
    path = Versions(tmp_path).create(topic, definition)
    check_definition(path, topic, definition)
    with pytest.raises(ViewStoppedError, match=r"changed since it was built .* rebuild"):
        check_definition(path, other_topic, other_definition)


def test_kinds_that_need_no_schema_do_not_mind_another(tmp_path: Path) -> None:
    path = Versions(tmp_path).create("t", StoreDefinition("v", KeyValue(), schema_of("a INT")))
    check_definition(path, "t", StoreDefinition("v", KeyValue(), schema_of("b INT")))


STORED = {
    '{"kind": "key-value"}': KeyValue(),
    '{"kind": "sql"}': SQL(),
    '{"kind": "search", "fields": ["a", "b"]}': Search("a", "b"),
    '{"kind": "graph", "source": "a", "target": "b"}': Graph(source="a", target="b"),
}


@pytest.mark.parametrize("stored", STORED)
def test_a_definition_that_was_stored_by_an_earlier_release_is_the_same_one(tmp_path: Path, stored: str) -> None:
    definition = StoreDefinition("v", STORED[stored], schema_of("a INT"))
    path = Versions(tmp_path).create("t", definition)
    document = json.loads((path / "definition.json").read_text())
    (path / "definition.json").write_text(json.dumps({**document, "kind": json.loads(stored)}))
    check_definition(path, "t", definition)


class FailingFiles:
    """The machine's files, until the step number ``fails_at``: that one and all after it fail."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise StorageError("the disk failed")

    def create(self, path: PurePath) -> NewFile:
        self._step()
        return LOCAL_FILES.create(path)

    def rename(self, source: PurePath, target: PurePath) -> None:
        self._step()
        LOCAL_FILES.rename(source, target)

    def sync_directory(self, path: PurePath) -> None:
        self._step()
        LOCAL_FILES.sync_directory(path)


@pytest.mark.parametrize("fails_at", range(4))
def test_a_swap_that_fails_at_any_step_leaves_a_version_that_the_next_start_opens(
    tmp_path: Path, fails_at: int
) -> None:
    versions = Versions(tmp_path)
    versions.make_current(former := versions.create("t", KEY_VALUE))
    failing = Versions(tmp_path, FailingFiles(fails_at))
    new = failing.create("t", KEY_VALUE)
    if fails_at < 3:
        with pytest.raises(StorageError):
            failing.make_current(new)
        assert failing.is_current(new) == (fails_at == 2), "the directory's sync comes after the rename"
        failing.remove(new)  # as a rebuild that failed does
    else:
        failing.make_current(new)
        failing.remove(former)
    started = Versions(tmp_path)
    current = started.current()
    assert current in (former, new)
    started.sweep()
    assert sorted(path.name for path in tmp_path.glob("v*")) == [current.name if current else ""]


def test_a_version_that_was_read_by_another_table_of_types_asks_for_a_rebuild(tmp_path: Path) -> None:
    for number, (definition, asks) in enumerate([(KEY_VALUE, True), (StoreDefinition("v", Lake()), False)]):
        path = Versions(tmp_path / str(number)).create("t", definition)
        stored = json.loads((path / "definition.json").read_text())
        stored.pop("reading", None)  # as former releases wrote it
        (path / "definition.json").write_text(json.dumps(stored))
        if asks:
            with pytest.raises(ViewStoppedError, match=r"reads JSON values by one table of types.*: rebuild the view"):
                check_definition(path, "t", definition)
        else:
            check_definition(path, "t", definition)
