"""Metrics views, in memory with snapshots.

* ``metrics``: sums, counts and histograms by label
* ``metrics_answers``: figures as rows
* ``figures``: figures that add up in any order
* ``prometheus``: figures in Prometheus' text format
"""
