"""Marks of tests that need parts of Spark that older versions lack (docs/spark/versions.md)."""

from __future__ import annotations

import pytest

from mainstem.spark.features import HAS_ADMISSION_CONTROL, HAS_FILTERS

several_micro_batches = pytest.mark.skipif(
    not HAS_ADMISSION_CONTROL, reason="Trigger.AvailableNow is one micro-batch on this Spark"
)
filters = pytest.mark.skipif(not HAS_FILTERS, reason="this PySpark hands no filters down")
