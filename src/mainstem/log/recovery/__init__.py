"""Opening after a crash, and checking files: nothing here changes an intact log.

* ``partition_recovery``: opens a partition and truncates what a crash tore
* ``local_start``: what is known of producers where the local segments follow those in the store
* ``remote_bases``: finds the segments that are in the backup's store alone
* ``truncated_tail``: saves bytes that recovery removes, when valid batches follow them
* ``node_checkpoint``: the node's checkpoint of flushed offsets, with a checksum
* ``verify``: checks every file of a data directory
* ``dump``: prints one file in readable form
"""
