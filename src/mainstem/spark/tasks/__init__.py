"""Code that runs on executors. Nothing here imports ``pyspark.sql``.

* ``task_reads``: reads one input partition
* ``scan``: raw fetches, decoded into Arrow
* ``typed_scan``: typed columns of a stream or a table
* ``local_segments``: reads segment files of a log on the same machine
* ``stored_segments``: reads segments that are in the backup's store alone
* ``ranges``: offset ranges of tasks
* ``losses``: detects records that the log has removed
* ``encoded_decode``: values of encoded topics to typed columns
* ``json_encode``: typed columns to JSON values
* ``dead_letters``: records that do not parse, appended to a topic of their own
"""
