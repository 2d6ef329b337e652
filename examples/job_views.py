"""A job site: one topic of page views, and five readers of it that know nothing of each other.

mainstem run examples/job_views.py
python examples/job_views.py browse     # jobs are posted, members look around
mainstem views query jobs "python oslo"
mainstem views metrics posters --over poster
python examples/job_views.py recommend ada
curl localhost:8080/views/pages/prometheus
"""

from __future__ import annotations

import random
import sys
import time

import mainstem as ms
from mainstem.client.records import NewRecord

app = ms.App("job-views")
jobs = app.topic("jobs", schema="job STRING NOT NULL, title STRING, city STRING, poster STRING", key="job")
page_views = app.topic(
    "page-views",
    schema="member STRING NOT NULL, job STRING, city STRING, poster STRING, device STRING, load_ms DOUBLE",
    key="member",
    partitions=4,
)

PAGES_A_MINUTE_MAX = 30


def watch(state: dict, view: ms.FoldRecord) -> dict:
    """Security: who looks at more pages within a minute than a person can read is a robot."""
    recent = [at for at in state["recent"] if at > view.timestamp_ms - 60_000][-PAGES_A_MINUTE_MAX:]
    recent.append(view.timestamp_ms)
    return {"recent": recent, "robot": state["robot"] or len(recent) > PAGES_A_MINUTE_MAX}


def taste(state: dict, view: ms.FoldRecord) -> dict:
    """Recommendations: in which cities a member looks for work, and what they have seen already."""
    city = view.value["city"]
    state["cities"][city] = state["cities"].get(city, 0) + 1
    return {**state, "seen": [*state["seen"][-99:], view.value["job"]]}


app.view("jobs", jobs, ms.Search("title", "city"))
app.view("alerts", page_views, ms.KeyValue(fold=watch, initial={"recent": [], "robot": False}))
app.view("tastes", page_views, ms.KeyValue(fold=taste, initial={"cities": {}, "seen": []}))
app.view("posters", page_views, ms.Metrics(by=("poster", "job")))
app.view("pages", page_views, ms.Metrics(by=("device",), values=("load_ms",)))

TITLES = ("python engineer", "data engineer", "nurse", "carpenter", "pilot", "python teacher")
CITIES = ("oslo", "lisbon", "wien")
JOBS = [
    {"job": f"job-{n}", "title": TITLES[n % 6], "city": CITIES[n % 3], "poster": f"company-{n % 4}"} for n in range(24)
]


def post(log: ms.Log) -> ms.Position:
    """Jobs are posted."""
    return log.append_many("jobs", [(job["job"], job) for job in JOBS])


def browse(
    log: ms.Log, member: str, pages: int, *, every_ms: int, city: str | None = None, seed: int = 0
) -> ms.Position:
    """A member looks at some pages, one every so often."""
    chance, now_ms = random.Random(seed), int(time.time() * 1000)
    found = [job for job in JOBS if city in (None, job["city"])]
    records = []
    for number in range(pages):
        job = chance.choice(found)
        page = {"member": member, "device": chance.choice(("phone", "desk")), "load_ms": chance.lognormvariate(5, 1)}
        view = page | {name: job[name] for name in ("job", "city", "poster")}
        records.append(NewRecord(view, member, timestamp_ms=now_ms - (pages - number) * every_ms))
    return log.append_many("page-views", records)


def recommend(url: str, member: str, at_least: ms.Position | None = None) -> list[str]:
    """Jobs in the city where a member looks most, which they have not seen: two views, asked for one page."""
    views = ms.views(url)
    known = views["tastes"].get(member, at_least=at_least).row
    if known is None:
        return []
    favorite = max(known["cities"], key=known["cities"].get)
    found = views["jobs"].search(f"city:{favorite}", limit=100)
    return [row["job"] for row in found if row["job"] not in known["seen"]]


def main(command: str = "browse", *arguments: str) -> None:
    """Post and browse, or recommend."""
    if command == "recommend":
        print(*recommend("localhost:8080", *arguments), sep="\n")
        return
    with ms.Log("127.0.0.1:9092") as log:
        post(log)
        browse(log, "ada", 3, every_ms=20_000, city="oslo")
        browse(log, "bob", 40, every_ms=15_000)
        print(browse(log, "robot", 200, every_ms=50))


if __name__ == "__main__":
    main(*sys.argv[1:])
