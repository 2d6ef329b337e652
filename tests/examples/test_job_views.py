"""The job site of the examples: one topic of page views, five views of it, each asked for what it is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

import mainstem as ms
from examples import job_views as example
from mainstem.client.http.views import Views
from mainstem.client.log import Log
from tests.cli.commands import Commands
from tests.examples.serving import serving


@dataclass(frozen=True)
class Site:
    """A site that has been used; ``position`` is behind all of it."""

    log: Log
    url: str
    position: ms.Position

    @property
    def views(self) -> Views:
        return ms.views(self.url)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(example.app, tmp_path_factory.mktemp("jobs")) as (log, url):
        position = example.post(log)
        ms.views(url)["jobs"].search("*", at_least=position, timeout=120)
        for member, pages, every_ms, city in (("ada", 3, 20_000, "oslo"), ("bob", 40, 15_000, None)):
            position |= example.browse(log, member, pages, every_ms=every_ms, city=city)
        yield Site(log, url, position | example.browse(log, "robot", 200, every_ms=50))


def page_views(site: Site) -> ms.Position:
    return site.position.restrict(["page-views"])


def test_a_posted_job_is_found(site: Site) -> None:
    found = site.views["jobs"].search("python AND oslo")
    assert {(row["title"], row["city"]) for row in found} == {("python engineer", "oslo")}


def test_only_the_robot_raises_an_alert(site: Site) -> None:
    alerts = site.views["alerts"].range(at_least=page_views(site), timeout=120)
    assert {row["_key"]: row["robot"] for row in alerts} == {"ada": False, "bob": False, "robot": True}


def test_a_member_is_recommended_jobs_of_their_city_that_they_have_not_seen(site: Site) -> None:
    recommended = set(example.recommend(site.url, "ada", page_views(site)))
    tastes = site.views["tastes"].get("ada").row
    assert tastes is not None
    in_oslo = {job["job"] for job in example.JOBS if job["city"] == "oslo"}
    assert recommended == in_oslo - set(tastes["seen"])
    assert example.recommend(site.url, "nobody") == []


def test_posters_see_how_often_their_jobs_were_looked_at(site: Site) -> None:
    answer = site.views["posters"].metrics(over=["poster"], at_least=page_views(site), timeout=120)
    assert sum(row["records"] for row in answer) == 3 + 40 + 200
    jobs = site.views["posters"].metrics(over=["job"], labels={"poster": "company-1"})
    assert {row["labels"]["job"] for row in jobs} <= {f"job-{n}" for n in range(1, 24, 4)}


def test_the_site_is_monitored(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    answer = site.views["pages"].metrics(over=[], quantiles=[0.5], at_least=page_views(site), timeout=120)
    [row] = answer.rows
    assert (row["records"], row["values"]["load_ms"]["count"]) == (243, 243)
    assert 50 < row["values"]["load_ms"]["quantiles"]["0.5"] < 500
    page = httpx.get(f"{site.url}/views/pages/prometheus", trust_env=False, timeout=60).text
    counted = Counter(line.split("{")[0] for line in page.splitlines() if line.startswith("pages_load_ms_count"))
    assert counted == {"pages_load_ms_count": 2}
    done = Commands(capsys).run("views", "metrics", "pages", "--over", "device", "--quantile", "0.5", "--url", site.url)
    assert (done.code, done.err) == (0, "")
    assert "load_ms p50" in done.out
    assert "phone" in done.out


def test_every_view_equals_a_replay(site: Site) -> None:
    for name in example.app.views:
        assert site.views[name].verify()["equal"], name
