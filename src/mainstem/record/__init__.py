"""Record batches in Kafka's format, magic 2. No I/O.

* ``constants``, ``header``, ``checksum``: the batch header and its CRC-32C
* ``reader``, ``writer``: record by record, in plain Python
* ``native``: compiled kernels
* ``arrow_decode``, ``arrow_encode``, ``arrow_columns``, ``arrow_source``, ``arrow_partition``: records as Arrow
columns, in bulk
* ``record_check``: the check of records at produce
* ``compress``: Kafka's four codecs
* ``partitioner``: the partition of a key
* ``append_headers``: headers for conditions and idempotency keys
* ``key_scan``: keys and headers of a batch
* ``key_offsets``: the latest record of each key, for compaction
"""
