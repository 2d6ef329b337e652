"""A query's checkpoint and its positions.

* ``offsets``: offsets of every partition, as Spark keeps them
* ``checkpoint``: reads Spark's checkpoint files
* ``checkpoint_lock``: one run at a time on an App's checkpoints
* ``progress_log``: progress records in the log
* ``nulled_values``: counts of values that became null, from tasks to the driver
"""
