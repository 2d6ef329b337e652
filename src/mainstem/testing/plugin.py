"""The pytest plugin that comes with the package: its fixtures give a test a log of its own.

Loading it imports nothing of Mainstem; a fixture that no test asks for costs nothing.
"""

from __future__ import annotations
