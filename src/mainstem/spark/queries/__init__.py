"""Pipelines as streaming queries.

* ``query``: what all queries share: inputs, checkpoint, start, progress
* ``pipeline_query``: a pipeline with outputs
* ``task_exchange``: what a pipeline's driver and its tasks send each other
* ``batch_function``: a pipeline with ``foreach_batch``
* ``batch_traces``: OpenTelemetry's span of each micro-batch
* ``query_keeper``: starts a query again after a failure
* ``command_follower``: an operator's commands to the pipelines
* ``query_watch``: a running query's progress as the pipeline's state
* ``pipeline_checks``: checks a pipeline's function before any query runs
* ``state_publisher``: publishes the pipelines' states to the log
* ``query_plan``: Spark's plan of a query, and its errors, for the pipeline's log
* ``frames``: topics as typed DataFrames
* ``input_watermarks``: the watermark of each input
* ``failures``: an error of a query in one line
"""
