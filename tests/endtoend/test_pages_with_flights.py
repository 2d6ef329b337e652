"""The pages whose commands need the flights: loaded, derived, asked, followed record by record, verified, given up."""

from __future__ import annotations

import gzip
import itertools
import shutil
import zipfile
from pathlib import Path

import pytest

from mainstem.cli.demo.data import files_directory
from mainstem.client.log import Log
from tests.house.pages import ROOT, Block, blocks_of, lines_of_console, lines_of_shell, not_in_form
from tests.node.page_session import PageSession

pytestmark = [pytest.mark.spark, pytest.mark.endtoend, pytest.mark.timeout(600)]
FLIGHTS = 800


def of_flights(page: str) -> list[Block]:
    """The blocks of a page that need the flights."""
    return [block for block in blocks_of(ROOT / page) if block.mark == "flights"]


def _make_files(directory: Path) -> None:
    """The files that the pages name: the first flights, other tables whole, and a few of every other kind."""
    shutil.copytree(ROOT / "examples", directory / "examples")
    shutil.copy(ROOT / "examples/flights.py", directory)
    for name in ("airlines", "planes", "airports", "weather"):
        shutil.copy(files_directory() / f"{name}.csv", directory)
    with zipfile.ZipFile(files_directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        head = next(file)
        parts = [b"".join(itertools.islice(file, FLIGHTS)) for _ in range(2)]
    (directory / "flights.csv").write_bytes(head + parts[0])
    with zipfile.ZipFile(directory / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", head + parts[1])
    (directory / "events.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1}\n{"id": 2}\n'))
    older = directory / "trips" / "older"
    older.mkdir(parents=True)
    for path in (older / "2019.csv", directory / "trips" / "2024-01.csv", directory / "trips" / "2024-02.csv"):
        path.write_text("id;miles\n1;2\n")


def test_flights_are_loaded_derived_asked_and_verified_as_the_pages_say(tmp_path: Path) -> None:
    _make_files(tmp_path)
    ask, load = of_flights("docs/examples/flights.md")
    run, files, pipelines, why, verify, dump = of_flights("docs/reference/commands.md")
    start, pause, run_log, equal = of_flights("docs/reference/pipelines.md")
    search, wait = of_flights("docs/reference/http.md")
    start_app, once, over = lines_of_shell(run.text)
    places = {
        "mainstem run flights.py": "mainstem run examples/flights.py",
        "kafka1:9092": "LOG",
        "spark://host:7077": "'local[2]'",
        "flights/0:4711": "flights/0:3",
        "flights/0:27": "flights/0:3",
        "carriers/0:1": "carrier-delays/0:0",
        "by-carrier": "carriers",
    }
    with PageSession(tmp_path, places) as session:
        session.place("LOG", session.log)
        session.place("localhost:8080", session.http)
        assert list(lines_of_shell(start.text)) == [line.replace("examples/", "") for line in (start_app, once)]
        for name, key in (("airlines", "carrier"), ("planes", "tailnum"), ("airports", "faa")):
            files = files._replace(text=f"mainstem load {name}.csv --topic {name} --key {key}\n{files.text}")
        session.run(load)  # it runs the App, and loads the first file
        session.run(files)
        with Log(session.log) as log:
            end = log.end("flights")
            assert sum(1 for _ in log.read("flights")) == 2 * FLIGHTS
        session.place("flights/0:84273", str(end).partition(",")[0])
        [line] = lines_of_shell(wait.text)  # the page waits for 10 s, which the start of Spark alone may take
        session.until(line, lambda said: '"carrier":"UA"' in said, "the carrier of the last flight")
        assert not_in_form(wait.shown, session.line(line)) == []
        assert not_in_form(search.shown, session.run(search)) == []
        for line, word in zip(lines_of_shell(ask.text), ("UA", "EWR", "", "Kennedy"), strict=True):
            session.until(line, lambda said, word=word: word in said, f"{word} in what {line} says")

        listed, shown, as_json, drop = lines_of_shell(pipelines.text)
        assert "carrier-delays" in session.line(listed)
        for line in (shown, as_json):
            session.line(line)
        for block in (why, *of_flights("docs/howto/find-record.md")):
            for line in lines_of_shell(block.text):
                session.until(line, lambda said: "carrier" in said and "waits: " not in said, f"{line} is all done")
            assert not_in_form(block.shown, session.run(block)) == []
        (stop, paused), (resume, _) = lines_of_console(pause.text)
        assert session.line(stop) == paused
        assert "carrier-delays is " in session.line(resume)  # starting, or running already
        [(line, _)] = lines_of_console(run_log.text)
        assert {"started", "resumed", "paused"} <= {each.split()[1].rstrip(":") for each in _lines(session.line(line))}
        # Each start of Spark takes long: lines that differ by their options alone are run as one.
        _, _, on_a_cluster = lines_of_shell(verify.text)
        [(line, is_equal)] = lines_of_console(equal.text)
        options = on_a_cluster.partition("--bootstrap")[2].removesuffix(" --json")
        said = session.line(f"{line} --bootstrap{options}")
        assert not_in_form(is_equal, said) == []
        session.stop()

        assert "flights" in session.run(dump)
        session.line("mainstem serve --no-http")
        session.line(f"{drop} --yes")
        program = tmp_path / "examples/flights.py"
        program.write_text(program.read_text().replace("manufacturer IS NOT NULL", "manufacturer > 'B'"))
        [rebuild] = (block for block in blocks_of(ROOT / "docs/howto/rebuild.md") if block.mark == "flights")
        [again] = lines_of_shell(rebuild.text)
        changed = again.partition("app.py ")[2].replace("totals", "manufacturer-delays")
        session.line(f"{over}{once.partition('flights.py')[2]} {changed}")


def _lines(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("20")]
