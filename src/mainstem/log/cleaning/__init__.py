"""Compaction: which segments are rewritten, by whom, and how the new ones take their places.

* ``cleaning``: a partition's side of cleaning: what may be compacted, and dropping what lies before the log start
* ``compaction``: the rewrite of segments: keep the latest record of each key
* ``compaction_job``: the request to a compaction worker and its result
* ``compaction_output``: writes the compacted segments
* ``compaction_transactions``: which records of aborted transactions a rewrite drops
* ``swap``: replaces segments by their compacted successors, safely against a crash at any step
"""
