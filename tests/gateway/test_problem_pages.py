"""Problem types lead to pages, and names that are misspelt to the ones that were meant."""

from __future__ import annotations

import httpx
import pytest

from mainstem.gateway.http.problem_responses import HTTP_PROBLEMS
from mainstem.problems import problem_classes, problem_type


def test_every_problem_type_has_a_page_with_cause_and_cure(api: httpx.Client) -> None:
    slugs = {problem_type(each).slug for each in problem_classes()} | {slug for slug, _ in HTTP_PROBLEMS.values()}
    for slug in (*slugs, "internal", "http"):
        answer = api.get(f"/problems/{slug}")
        assert answer.status_code == 200, slug
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.text.count("<h2>") == 2
    page = api.get("/problems/position-timeout").text
    assert "<code>mainstem why</code> says where a record is" in page


def test_a_problem_of_an_answer_leads_to_its_page(api: httpx.Client) -> None:
    problem = api.get("/topics/missing").json()
    assert problem["title"] in api.get(problem["type"]).text


def test_a_type_that_there_is_not_is_a_problem_itself(api: httpx.Client) -> None:
    answer = api.get("/problems/%3Cscript%3E")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/views/any/keys/1?at_leas=a/0:1", "at_leas: unknown name: did you mean at_least?"),
        ("/topics/any/records?form=earliest", "form: unknown name: did you mean from?"),
        ("/topics/any/records?zzz=1", "zzz: unknown name: use from, key, limit, on_damaged, to"),
        ("/groups?limit=1", "limit: unknown name: this request takes no parameters"),
    ],
)
def test_a_misspelt_parameter_gets_the_one_probably_meant(api: httpx.Client, target: str, words: str) -> None:
    answer = api.get(target)
    assert (answer.status_code, answer.json()["detail"]) == (400, words)


def test_a_misspelt_field_of_a_body_gets_the_one_probably_meant(api: httpx.Client, mainstem_topic: str) -> None:
    answer = api.post(f"/topics/{mainstem_topic}/records", json={"records": [{"valeu": 1, "value": 1}]})
    assert answer.json()["detail"] == "records.0.valeu: unknown name: did you mean value?"
