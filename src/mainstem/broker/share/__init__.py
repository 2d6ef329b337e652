"""Share groups (KIP-932): many members take records of one partition, and each acknowledges its own.

* ``shares``: everything of share groups on a node
* ``coordinator``, ``group``, ``group_steps``, ``group_records``: members and assignments
* ``assignor``: which member reads which partitions
* ``in_flight``: the records of a share partition that are being delivered
* ``acquisition``: pure steps: acquire, acknowledge, release, time out
* ``share_partition_manager``: runs these steps, and keeps the locks of members
* ``dead_letters``: dead letters of records that were given up
* ``batches``: the fetched batches that hold the acquired records
* ``sessions``, ``acknowledging``: share sessions, and acknowledgements in requests
* ``state_log``, ``state_records``: ``__share_group_state``
"""
