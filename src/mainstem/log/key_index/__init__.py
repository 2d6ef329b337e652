"""Features beyond Kafka: the key index, conditional appends, idempotency keys.

* ``key_index``: the index from key to latest offset of one partition
* ``key_store``: its store, in RocksDB
* ``key_layout``: keys and values of that store as bytes
* ``key_entries``: index entries of record batches
* ``index_build``: builds an index from a log
* ``index_worker``: the process that builds an index
* ``partition_features``: starts, follows and stops the features of one partition
* ``append_hook``: what an append passes through when features are on
* ``conditions``: conditions of an append
* ``idempotency``: duplicates by idempotency key
"""
