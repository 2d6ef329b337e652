"""What the processes that tests kill import: loaded once in the process that they are forked from (`views.forked`)."""

from __future__ import annotations

from mainstem.extras import import_arrow_alone

import_arrow_alone()

import duckdb  # noqa: E402, F401
import tantivy  # noqa: E402, F401

import tests.sinks.databases  # noqa: E402
import tests.views.hosting  # noqa: E402, F401
