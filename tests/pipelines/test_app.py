"""What an App accepts, and what it refuses with the line that is wrong."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mainstem.errors import DefinitionError
from mainstem.pipelines.app import App
from mainstem.pipelines.kinds import SQL, Graph, KeyValue, Search


def _copy(flights: Any, *_: Any) -> Any:
    return flights


@pytest.fixture
def app() -> App:
    made = App("flights")
    made.topic("flights", schema="flight_id STRING", key="flight_id", partitions=4)
    made.topic("airlines", schema="carrier STRING", key="carrier", compacted=True)
    return made


def test_a_pipeline_keeps_its_function_callable(app: App) -> None:
    assert app.pipeline("flights", into="copies")(_copy) is _copy


def test_a_pipeline_is_named_after_its_function(app: App) -> None:
    @app.pipeline("flights", into="delays", key="carrier", mode="update")
    def carrier_delays(flights: Any) -> Any:
        return flights

    assert list(app.pipelines) == ["carrier-delays"]


def test_a_topic_derived_by_update_is_compacted_and_keyed(app: App) -> None:
    app.pipeline("flights", into="delays", key="carrier", mode="update")(_copy)
    delays = app.topics["delays"]
    assert (delays.compacted, delays.key) == (True, ("carrier",))


def test_a_derived_topic_has_as_many_partitions_as_its_first_stream(app: App) -> None:
    app.pipeline(app.topics["airlines"].table(), "flights", into="copies", name="copy")(_copy)
    assert app.topics["copies"].partitions == 4


def test_streams_and_tables_are_told_apart(app: App) -> None:
    app.pipeline("flights", app.topics["airlines"].table(), into="copies", name="copy")(_copy)
    pipeline = app.pipelines["copy"]
    assert [topic.name for topic in pipeline.streams] == ["flights"]
    assert [topic.name for topic in pipeline.tables] == ["airlines"]


def test_a_pipeline_may_derive_several_topics(app: App) -> None:
    late = app.topic("late", key="flight_id")
    app.pipeline("flights", into=(late, "counts"), key="carrier", name="split")(_copy)
    assert [topic.name for topic in app.pipelines["split"].outputs] == ["late", "counts"]
    assert (app.topics["counts"].key, app.topics["counts"].partitions) == (("carrier",), 4)


def test_a_topic_is_derived_once(app: App) -> None:
    with pytest.raises(DefinitionError, match="names late twice"):
        app.pipeline("flights", into=("late", "late"), name="split")(_copy)
    app.pipeline("flights", into=("a", "b"), name="first")(_copy)
    with pytest.raises(DefinitionError, match="b is written by pipeline first already"):
        app.pipeline("flights", into="b", name="second")(_copy)


def test_a_function_of_micro_batches_derives_what_it_says(app: App) -> None:
    copies = app.topic("copies")
    app.foreach_batch("flights", into=copies, name="copy")(lambda flights, batch_id: None)
    app.foreach_batch("flights", name="see")(lambda flights, batch_id: None)
    assert [pipeline.outputs for pipeline in app.pipelines.values()] == [(copies,), ()]
    assert all(pipeline.each_batch for pipeline in app.pipelines.values())


def test_a_function_of_micro_batches_gets_one_stream_and_an_id(app: App) -> None:
    with pytest.raises(DefinitionError, match="has a micro-batch and its id, but"):
        app.foreach_batch("flights", name="one")(lambda flights: None)
    with pytest.raises(DefinitionError, match="a table has no micro-batches"):
        app.foreach_batch(app.topics["airlines"].table(), name="table")(lambda flights, batch_id: None)


def test_a_pipeline_is_a_function(app: App) -> None:
    with pytest.raises(DefinitionError, match=r"test_app\.py:\d+: a pipeline is a function"):
        app.pipeline("flights", into="copies")(print)


def test_a_view_may_look_at_a_derived_topic(app: App) -> None:
    app.pipeline("flights", into="copies", name="copy")(_copy)
    assert app.view("copies", "copies", KeyValue()).topic is app.topics["copies"]


def test_a_view_and_a_pipeline_of_one_name_keep_their_dead_letters_apart(app: App) -> None:
    app.pipeline("flights", into="delays", name="delays")(lambda flights: flights)
    view = app.view("delays", "delays", KeyValue())
    assert view.dead_letter_topic != app.pipelines["delays"].dead_letter_topic


def test_a_kind_says_which_columns_it_needs() -> None:
    kinds = (KeyValue(), SQL(), Search("name", "city"), Graph(source="origin", target="dest"))
    assert [kind.columns for kind in kinds] == [(), (), ("name", "city"), ("origin", "dest")]


def test_an_error_names_the_file_and_the_line(app: App) -> None:
    with pytest.raises(
        DefinitionError, match=r"^test_app\.py:\d+: topic flights is declared already, at test_app\.py:\d+$"
    ):
        app.topic("flights")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "__mainstem_progress"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        App("app").topic(name)


def test_a_compacted_topic_needs_a_key() -> None:
    with pytest.raises(DefinitionError, match="needs a key"):
        App("app").topic("t", compacted=True)


def test_changing_rows_need_a_key(app: App) -> None:
    with pytest.raises(DefinitionError, match="by which key="):
        app.pipeline("flights", into="delays", mode="update")(_copy)


def test_an_undeclared_topic_is_refused(app: App) -> None:
    with pytest.raises(DefinitionError, match="declares no topic 'weather'"):
        app.pipeline("weather", into="copies")(_copy)


def test_a_topic_of_another_app_is_refused(app: App) -> None:
    with pytest.raises(DefinitionError, match="declares no topic 'flights'"):
        app.view("v", App("other").topic("flights"), KeyValue())


def test_a_pipeline_needs_a_stream(app: App) -> None:
    with pytest.raises(DefinitionError, match="at least one input that is not a table"):
        app.pipeline(app.topics["airlines"].table(), into="copies")(_copy)


def test_a_function_that_cannot_take_the_inputs_is_refused(app: App) -> None:
    with pytest.raises(DefinitionError, match="has 2 inputs"):
        app.pipeline("flights", "airlines", into="copies", name="copy")(lambda flights: flights)


def test_a_pipeline_may_not_read_its_own_output(app: App) -> None:
    with pytest.raises(DefinitionError, match="its own output"):
        app.pipeline("flights", into="flights")(_copy)


def test_pipelines_in_a_circle_are_refused(app: App) -> None:
    back = app.topic("back")
    app.pipeline(back, into="there")(_copy)
    with pytest.raises(DefinitionError, match="circle"):
        app.pipeline("there", into=back, name="again")(_copy)


def test_a_topic_has_one_writing_pipeline(app: App) -> None:
    app.pipeline("flights", into="copies", name="first")(_copy)
    with pytest.raises(DefinitionError, match="written by pipeline first already"):
        app.pipeline("flights", into="copies", name="second")(_copy)


def test_an_unknown_mode_is_refused(app: App) -> None:
    with pytest.raises(DefinitionError, match="append, update, complete"):
        app.pipeline("flights", into="copies", mode="upsert")(_copy)  # type: ignore[arg-type]


def test_a_search_without_fields_is_refused(app: App) -> None:
    with pytest.raises(DefinitionError, match="which fields"):
        app.view("v", "airlines", Search())


@pytest.mark.parametrize(
    "kind",
    [
        KeyValue(initial=1),
        KeyValue(fold=cast(Any, 5)),
        KeyValue(fold=cast(Any, lambda state: state)),
        KeyValue(fold=lambda state, _record: state, initial={1, 2}),
    ],
)
def test_a_fold_that_cannot_work_is_refused_where_it_is_declared(kind: KeyValue) -> None:
    app = App("accounts")
    payments = app.topic("payments", key="account")
    with pytest.raises(DefinitionError, match=r"^test_app\.py:\d+: .*(fold|initial)"):
        app.view("balances", payments, kind)
