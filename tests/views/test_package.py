"""``ms.views`` is a function to its users, whatever else has been imported."""

from __future__ import annotations

import mainstem as ms
import mainstem.views.requests
from mainstem.client.http.views import Views


def test_the_views_of_a_gateway_can_be_asked_for_in_a_program_that_hosts_views() -> None:
    assert isinstance(ms.views("localhost:1", token="t"), Views)
    assert mainstem.views.requests.GetQuery("a").key == "a"
