"""The log on disk: partitions of segments, appended, read, recovered and cleaned. No network, no protocol.

Packages, lowest first; at run time each imports only those before it:

* ``files``: files and their names
* ``segments``: one segment, its batches and its indexes
* ``verifiable``: the Merkle tree of a verifiable topic's partition
* ``cleaning``: compaction
* ``partition``: one partition: append, read, flush, producer state
* ``recovery``: opening after a crash; verifying and dumping files
* ``key_index``: key index, conditional appends, idempotency keys
* ``node``: all partitions of a data directory, and the node's metadata
"""
