"""Reading records from the log.

* ``reader``: bounded readers and followers
* ``start``: where a reader begins and ends
* ``time_search``: the first record at or after a time
* ``key_reader``: the records of one key
* ``tree_reader``: checkpoints, tiles and proofs of verifiable topics
* ``witnesses``: asks witnesses to cosign a checkpoint
* ``decoding``: records from fetched bytes
"""
