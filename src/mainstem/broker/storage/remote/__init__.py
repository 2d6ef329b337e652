"""Segments that are in the backup's store alone.

* ``remote_storage``: they leave the disk, and are loaded for readers
* ``segment_release``: checks the store and the file before a segment leaves the disk
* ``segment_return``: writes a whole segment and its index files again where an index is lost
* ``remote_pieces``: the cache of what was read from the store
* ``store_threads``: work for the store in threads, which is given up when it does not go on
"""
