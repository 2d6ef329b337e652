"""Metrics of the log process, in Prometheus' text format on a Unix socket.

* ``meters``: counters and histograms
* ``page``: the page of metrics
* ``text_format``: the text format
* ``serving``: HTTP on the Unix socket
"""
