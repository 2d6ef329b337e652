"""One segment of a partition: its batches, its indexes, and reads from them.

* ``segment``: one segment: append, read, truncate, close
* ``log_segments``: the segments of one partition, in order of offset
* ``segment_indexes``: the indexes of one segment as a unit: append, rebuild, close
* ``offset_index``: offset → file position
* ``time_index``: timestamp → offset
* ``transaction_index``: the aborted transactions of a segment
* ``transactions``: which transactions are open, and which were aborted
* ``index_checksums``: checksums of a closed segment's indexes, so that opening need not rebuild them
* ``batch_scan``: walks the batches of a segment file and checks them
* ``file_ranges``: byte ranges of segment files, sent without a copy
* ``remote_segment``: a segment whose records are in the backup's store alone
* ``handles``: which files are open, and which may be closed
* ``timestamps``: the first record at or after a time
"""
