"""A copy of the log elsewhere: continuous backup into an object store or a directory, restore, and verification.

* ``process``: the backup's process; ``continuous``: its loop
* ``backup_round``: one point in time: what is new in the data directory goes into the store
* ``held_until``: the time up to which the backup has every durable record
* ``source``: reads the data directory of a running or stopped log
* ``remote_files``: segments that are in the store alone, and the files beside them that say where
* ``pieces``: stretches of files on their way into objects
* ``manifest``: the root object, claimed and changed by compare-and-set; points and chapters
* ``catalog``: the state that the manifest describes, as values
* ``retention``: which points are kept, and which objects go
* ``moments``: which point a time or a position means
* ``restore``: a data directory as it was at a point
* ``verification``: proves objects and record batches
* ``stored_files``: reads files out of their pieces
* ``status``: how the backup is doing, as metrics
"""
