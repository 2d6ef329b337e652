"""An append over HTTP that is validated takes what the table of types says, and its record has that value."""

from __future__ import annotations

from typing import Any

import httpx

from mainstem.client.log import Log
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from tests.support.type_matrix import CASES, DDL, REFUSED, Case, as_read, fitting, value_of, wrong_cells


def test_an_append_that_is_validated_takes_what_fits(api: httpx.Client, mainstem_topic: str, mainstem_log: Log) -> None:
    register(mainstem_log, mainstem_topic, schema_of(DDL))
    url = f"/topics/{mainstem_topic}/records?validate=true"

    def posted(*cases: Case) -> httpx.Response:
        records = b",".join(b'{"value":%s}' % value_of(case) for case in cases)
        return api.post(url, content=b'{"records":[%s]}' % records, headers={"content-type": "application/json"})

    def made(case: Case) -> Any:
        end = mainstem_log.end(mainstem_topic)
        answer = posted(case)
        if answer.status_code == 422:
            return REFUSED
        [record] = mainstem_log.read(mainstem_topic, start=end)
        return as_read(case, record.value)

    assert wrong_cells("POST", [(case, made(case)) for case in CASES]) == []
    end = mainstem_log.end(mainstem_topic)
    many = fitting("POST") * 25  # so many values that they are read in parts
    assert posted(*many).status_code == 201
    records = mainstem_log.read(mainstem_topic, start=end)
    assert wrong_cells("POST", ((case, as_read(case, r.value)) for case, r in zip(many, records, strict=True))) == []
