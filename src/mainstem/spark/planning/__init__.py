"""Planning of reads, on the driver.

* ``batch_reader``: plans a batch read
* ``stream_reader``: plans each micro-batch of a stream
* ``start_tracking_reader``: streams where Spark does not say where they stand
* ``subscription``: topics and partitions of a read, with topic ids
* ``micro_batch_offsets``: the offset range of each partition for the next micro-batch
* ``latest_offsets``: the current ends of the partitions
* ``splits``: cuts a read into tasks
* ``limits``: how much one micro-batch takes
* ``sizes``: bytes per offset, from a sample
* ``filters``: filters that Spark pushes down
* ``consumer_group_offsets``: commits a stream's offsets to a consumer group
"""
