"""Streams groups (KIP-1071): the programs of Kafka Streams, whose tasks the log assigns.

* ``tasks``: sets of tasks in their three roles
* ``topology``: a program's subtopologies, its internal topics, and how many tasks come of them
* ``task_assignor``: which member gets which tasks
* ``streams_group``: a group and its members
* ``streams_steps``: the steps of a group: heartbeat, leave, time-outs
* ``task_reconcile``: a member's next step towards its target
* ``streams_records``: the records of a group in ``__consumer_offsets``
* ``answers``: the answer to a heartbeat
* ``streams_replay``: rebuilds groups from them
* ``streams_coordinator``: runs the steps, writes the records, makes internal topics
"""
