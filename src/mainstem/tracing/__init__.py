"""OpenTelemetry, for processes that trace (decision 48).

* ``spans``: spans of what is appended and processed, and the headers that join them
* ``export``: lets a process of Mainstem export its spans
"""
