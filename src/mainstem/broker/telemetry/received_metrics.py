"""The metrics that clients sent, as series for ``/metrics``: the last value of each, bounded.

A series is a name with labels. Names come from clients: ``org.apache.kafka.producer.record.send.total`` is shown as
``mainstem_client_producer_record_send_total``. Of the attributes only those of ``LABEL_ATTRIBUTES`` become labels, with
their values cut, in addition to the id of the client and of the instance. At most ``series_max`` series are kept, and
at most ``_SERIES_OF_CLIENT_MAX`` of one client; further ones are counted and left out. The series of a client end when
the client is forgotten. Concurrency: the event loop only.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mainstem.broker.telemetry.otlp import MetricPoint

LABEL_ATTRIBUTES: Final = ("node_id", "topic", "partition", "reason", "acks", "group_id", "transactional_id")
_PREFIX: Final = "mainstem_client_"
_KAFKA_PREFIX: Final = "org.apache.kafka."
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9]+")
_NAME_LENGTH_MAX: Final = 120
_LABEL_LENGTH_MAX: Final = 100
_SERIES_OF_CLIENT_MAX: Final = 200


@dataclass(slots=True)
class ClientFamily:
    """The series of one name: values by instance and labels. A name is a counter or a gauge, as it first came."""

    is_counter: bool
    values: dict[tuple[uuid.UUID, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)


class ReceivedMetrics:
    """All series. ``left_out`` counts the points that were not kept."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._families: dict[str, ClientFamily] = {}
        self._series: Counter[uuid.UUID] = Counter()
        self._series_count = 0
        self.left_out = 0

    def take(self, instance_id: uuid.UUID, client_id: str, points: Sequence[MetricPoint]) -> None:
        """Keep the points that a client sent."""
        for point in points:
            name = _family_name(point)
            family = self._families.get(name)
            if family is not None and family.is_counter != point.is_monotonic:
                self.left_out += 1
                continue
            key = instance_id, (("client_id", client_id[:_LABEL_LENGTH_MAX]), *_labels(point.attributes))
            if family is None or key not in family.values:
                if self._is_full(instance_id):
                    self.left_out += 1
                    continue
                self._series[instance_id] += 1
                self._series_count += 1
                family = family or self._families.setdefault(name, ClientFamily(point.is_monotonic))
            before = family.values.get(key, 0.0) if point.is_delta else 0.0
            family.values[key] = before + point.value

    def keep_only(self, known: Container[uuid.UUID]) -> None:
        """Drop the series of clients that are not known."""
        gone = {instance_id for instance_id in self._series if instance_id not in known}
        if not gone:
            return
        for instance_id in gone:
            self._series_count -= self._series.pop(instance_id)
        for name, family in list(self._families.items()):
            for key in [key for key in family.values if key[0] in gone]:
                del family.values[key]
            if not family.values:
                del self._families[name]

    def families(self) -> Iterator[tuple[str, ClientFamily]]:
        """Return the families by name."""
        yield from sorted(self._families.items())

    def _is_full(self, instance_id: uuid.UUID) -> bool:
        return self._series[instance_id] >= _SERIES_OF_CLIENT_MAX or self._series_count >= self._series_max


def _family_name(point: MetricPoint) -> str:
    words = _NO_NAME.sub("_", point.name.removeprefix(_KAFKA_PREFIX)[:_NAME_LENGTH_MAX]).strip("_")
    name = f"{_PREFIX}{words or 'unnamed'}"
    return f"{name}_total" if point.is_monotonic and not name.endswith("_total") else name


def _labels(attributes: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name in LABEL_ATTRIBUTES:
        if name in attributes:
            yield name, attributes[name][:_LABEL_LENGTH_MAX]
