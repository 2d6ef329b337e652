"""Verifiable topics: the Merkle log of a partition, beside its segments.

* ``tree_files``: a tree's files: entries, tiles of hashes, and the state that is durable
* ``stored_batches``: the batches of segments as their bytes, for threads that are not the owner's
* ``partition_tree``: the tree of one partition, which follows the durable end of its log
"""
