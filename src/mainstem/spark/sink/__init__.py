"""Writing DataFrames to topics, exactly once.

* ``sink``: the writers that Spark calls
* ``transactions``: the steps of a micro-batch, and the functions for them
* ``sink_driver``: the driver's steps: begin, decide, end
* ``sink_run``: the values that driver and tasks exchange
* ``sink_commits``: the decision on a micro-batch, kept as committed offsets
* ``task_producers``: transactional producers of one Python process
* ``task_appender``: a writing task
* ``typed_rows``: rows of any columns as records, encoded where their topic is
* ``outputs``: a pipeline's outputs as one DataFrame
* ``transaction_outcome``: whether a transaction was committed or aborted
"""
