"""Partitions as handlers use them: append, fetch, flush, compaction, retention.

* ``topics``: topics by name and by id, and changes of them
* ``topic_partitions``: a topic's partitions, opened on first use
* ``validation_threads``: checks the records of a Produce request, in a thread when it is long
* ``subject_schemas``: the schemas that topics with schema validation ask for, read from the registry's topic
* ``schema_frames``: the check that keys and values name such a schema
* ``schema_contents``: the check that keys and values fit it, by a process of its own
* ``group_commit``: collects appends so that many share one fdatasync
* ``flush_policy``: where the next fdatasync runs: on the event loop or in a thread
* ``delayed_fetch``: fetches that wait for data
* ``fetch_sessions``: fetch sessions (KIP-227)
* ``compaction``: chooses partitions to compact and runs the worker
* ``compaction_worker``: the process that compacts
* ``trees``: the trees of verifiable topics: they follow the log, and checkpoints are signed
* ``remote``: old segments that leave the disk for the backup's store
* ``housekeeping``: rounds of retention, of segments and of committed offsets
"""
