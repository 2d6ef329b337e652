"""Key-value views, in RocksDB.

* ``key_value``: the latest value of each key, or the result of a fold
* ``folding``: the changes of one batch
"""
