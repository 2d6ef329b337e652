"""All partitions of a data directory, and the node's own metadata.

* ``directory``: the data directory: open, create, delete, close
* ``node_log``: internal topics that the node writes for itself
* ``metadata``: topics, settings and users, as a replay of the metadata log
* ``checkpoint_write``: writes the checkpoint files
* ``background_flush``: flushes by time and by number of records
* ``file_removal``: removes files after the checkpoint that allows it is durable
* ``retention``: removes segments by age and size
* ``stored_size``: the size of partitions on disk
"""
