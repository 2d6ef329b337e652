"""The choices for changed pipelines, as an operator says them."""

from __future__ import annotations

import pytest

from mainstem.errors import ConfigError
from mainstem.pipelines.changes import Choice, Choices


def test_a_choice_is_for_all_or_for_one_by_name() -> None:
    choices = Choices.parse(["resume", "totals=fresh"])
    assert (choices.of("totals"), choices.of("other")) == (Choice.FRESH, Choice.RESUME)
    assert Choices.parse([]).of("totals") is None


@pytest.mark.parametrize("text", ["", "restart", "totals=", "totals=now"])
def test_a_choice_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--changed .*: say resume, "):
        Choices.parse([text])


def test_a_choice_for_a_pipeline_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="--changed names totals"):
        Choices.parse(["totals=fresh", "other=resume"]).require_known(["other"])
