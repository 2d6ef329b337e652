"""Marks of tests that need parts of Spark that older versions lack (docs/spark/versions.md)."""

from __future__ import annotations

import pytest

from mainstem.spark.features import HAS_ADMISSION_CONTROL

several_micro_batches = pytest.mark.skipif(
    not HAS_ADMISSION_CONTROL, reason="Trigger.AvailableNow is one micro-batch on this Spark"
)
