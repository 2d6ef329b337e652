"""The latest record of each key over many batches, for compaction: a bounded map, and batches without the others.

* ``batches``: batches whole, emptied, rebuilt
* ``native_map``: the map in native code; needs the extra ``native``
* ``plain_map``: the same in plain Python
"""
