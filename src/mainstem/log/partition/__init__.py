"""One partition's log: append, read, flush, and the producers' state.

* ``partition_log``: the log of one partition: owner of all of its state
* ``partition_reads``: reads: fetch, offsets by time, ends
* ``batch_validation``: checks the headers of batches, and gives them their offsets and timestamps
* ``append_validation``: checks the records of an append
* ``mirrored_batches``: the batches that a mirror appends, with their own offsets
* ``producer_state``: sequence numbers and epochs of producers (idempotence, transactions)
* ``producer_snapshot``: producer state in Kafka's snapshot files
* ``leader_epochs``: leader epochs and their start offsets
* ``checkpoints``: the small checkpoint files: recovery points, log starts, epochs
* ``flush``: which bytes are on disk
* ``config``: topic settings that the log obeys
* ``config_values``: definitions of configs, and their types
"""
