"""An operator's commands to a running pipeline, and its log.

* ``commands``: the records that ask, and how to wait until they are carried out
* ``run_log``: what happened to a pipeline or a capture, and the Spark plan of a pipeline's latest run
* ``run_notes``: entries for these logs, on their way
"""
