"""A lake's files: an Iceberg table of a topic's records. Each snapshot names the position that it reaches.

* ``table``: the table: one writer appends and commits
* ``columns``: the columns of a record
* ``files``: how pyiceberg reads and writes files
* ``compaction``: small files become one
* ``reading``: files and position of the newest commit
* ``installed``: whether the libraries are installed
"""
