"""``AlertWebhook``: sends the problems that begin and end to a URL, as JSON in the form of Prometheus' Alertmanager.

What takes Alertmanager's webhooks takes these. ``text`` comes in addition, which is what the incoming webhooks of chat
servers show. Format: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config, version 4.

It remembers what the receiver knows. What could not be sent is part of the next request, so that a receiver that was
away gets the state of that moment and no backlog. Used by one thread at a time.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import Request

from mainstem.clock import Clock, utc_time
from mainstem.errors import ConfigError
from mainstem.gateway.monitoring.problem_watch import PROBLEMS_MAX, CurrentProblem
from mainstem.redirects import direct_opener

_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 5.0
_PAUSE_MAX_S: Final = 300.0
_NOT_ENDED: Final = "0001-01-01T00:00:00Z"
_LOG: Final = logging.getLogger(__name__)

_Key = tuple[str, str]


class AlertWebhook:
    """One receiver. ``console`` is the address of the console, to which the alerts link."""

    def __init__(self, url: str, console: str, clock: Clock) -> None:
        """Raises ConfigError for a URL that is none."""
        self._url = checked_url(url)
        self._host = urlsplit(url).hostname
        self._console = console.rstrip("/")
        self._clock = clock
        self._known: dict[_Key, CurrentProblem] = {}
        self._opener = direct_opener(proxies=True)
        self._failures = 0
        self._next_ms = 0

    def tell(self, current: Sequence[CurrentProblem]) -> None:
        """Send what has begun and what has ended since the last request that was taken; nothing, if nothing has."""
        now_ms = self._clock.time_ms()
        lasting = {(each.symptom.rule, each.symptom.subject): each for each in current}
        begun = [each for key, each in lasting.items() if key not in self._known]
        ended = [each for key, each in self._known.items() if key not in lasting]
        if not (begun or ended) or now_ms < self._next_ms:
            return
        try:
            self._send(self._document(begun, ended, now_ms))
        except (OSError, http.client.HTTPException) as error:
            self._failures += 1
            pause_s = min(_PAUSE_S * 2 ** min(self._failures, 10), _PAUSE_MAX_S)
            self._next_ms = now_ms + int(pause_s * 1000)
            if self._failures == 1:  # the URL may hold a secret
                _LOG.warning("the alert webhook at %s cannot be reached: %s; it is tried again", self._host, error)
            return
        self._failures = 0
        self._known = lasting

    def _send(self, document: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "mainstem"}
        request = Request(self._url, json.dumps(document).encode(), headers, method="POST")
        with self._opener.open(request, timeout=_TIMEOUT_S):
            pass

    def _document(
        self, begun: Sequence[CurrentProblem], ended: Sequence[CurrentProblem], now_ms: int
    ) -> dict[str, Any]:
        alerts = [*(self._alert(each, None) for each in begun), *(self._alert(each, now_ms) for each in ended)]
        return {
            "version": "4",
            "groupKey": "mainstem",
            "truncatedAlerts": max(0, len(alerts) - PROBLEMS_MAX),
            "status": "firing" if begun else "resolved",
            "receiver": "mainstem",
            "groupLabels": {},
            "commonLabels": {"job": "mainstem"},
            "commonAnnotations": {},
            "externalURL": self._console,
            "alerts": alerts[:PROBLEMS_MAX],
            "text": "\n".join(_lines(begun, ended)),
        }

    def _alert(self, problem: CurrentProblem, ended_ms: int | None) -> dict[str, Any]:
        symptom = problem.symptom
        return {
            "status": "firing" if ended_ms is None else "resolved",
            "labels": {"alertname": symptom.rule, "subject": symptom.subject, "job": "mainstem"},
            "annotations": {"summary": symptom.text, "description": symptom.action},
            "startsAt": utc_time(problem.since_ms),
            "endsAt": _NOT_ENDED if ended_ms is None else utc_time(ended_ms),
            "generatorURL": self._console + symptom.link,
            "fingerprint": hashlib.sha256(f"{symptom.rule}\0{symptom.subject}".encode()).hexdigest()[:16],
        }


def checked_url(url: str) -> str:
    """The URL. Raises ConfigError where it is not one of HTTP."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError("invalid address of the alert webhook: give it as https://HOST/PATH")
    return url


def _lines(begun: Sequence[CurrentProblem], ended: Sequence[CurrentProblem]) -> Iterator[str]:
    for problem in begun[:PROBLEMS_MAX]:
        yield f"{problem.symptom.text} {problem.symptom.action}"
    for problem in ended[:PROBLEMS_MAX]:
        yield f"Over: {problem.symptom.text}"
