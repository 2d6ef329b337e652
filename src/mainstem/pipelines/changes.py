"""The operator's choices for a pipeline that was changed since its checkpoint was written."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mainstem.errors import ConfigError


class Choice(enum.StrEnum):
    """A choice for a changed pipeline."""

    RESUME = "resume"
    """Go on from the checkpoint, with the state that it holds; Spark refuses where it cannot."""
    REBUILD = "rebuild"
    """Derive the whole topic again beside the old one, compare, and make the old one equal to it."""
    FRESH = "fresh"
    """Forget the checkpoint: derive from the inputs' start again, into the same topic."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choice for every changed pipeline, or for some by name."""

    for_all: Choice | None = None
    by_name: Mapping[str, Choice] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Choices:
        """``resume``, or ``totals=fresh``, each as often as need be. Raises ConfigError."""
        for_all: Choice | None = None
        by_name: dict[str, Choice] = {}
        for text in texts:
            name, separator, choice = text.rpartition("=")
            try:
                chosen = Choice(choice)
            except ValueError as error:
                raise ConfigError(
                    f"--changed {text}: say {', '.join(Choice)}, or PIPELINE= and one of these"
                ) from error
            if separator:
                by_name[name] = chosen
            else:
                for_all = chosen
        return cls(for_all, by_name)

    def of(self, pipeline: str) -> Choice | None:
        """The choice for a pipeline; None when there is none."""
        return self.by_name.get(pipeline, self.for_all)

    def require_known(self, pipelines: Iterable[str]) -> None:
        """Raises ConfigError when a choice names none of ``pipelines``."""
        unknown = sorted(self.by_name.keys() - set(pipelines))
        if unknown:
            raise ConfigError(f"--changed names {', '.join(unknown)}, but the App has no such pipeline")
