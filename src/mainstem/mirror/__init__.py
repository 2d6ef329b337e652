"""A second copy of a log, at equal offsets: ``mainstem mirror`` and ``mainstem promote``.

Decision 41 says how the target takes batches at given offsets. The mirror keeps no state of its own: where it goes on
is the end of the target.

* ``link``: the two logs, and which topics are meant
* ``mirror``: the process: follows topics, copies, carries groups over, reports
* ``copying``: one round of fetches from the source and appends to the target
* ``appending``: the request that appends
* ``topics``: topics at the target, made and kept as at the source
* ``lineage``: whether the target holds what the source holds
* ``group_offsets``: committed offsets of groups
* ``rights``: ACLs and quotas
* ``promotion``: opens the target to writers, at a position that is written down
* ``promotion_record``: how that position is written down, and read again
* ``status``: how far the copy is behind
* ``metrics``: the same for Prometheus, in a file
* ``rate``: the limit of bytes per second
"""
