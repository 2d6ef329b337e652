"""The user's declarations: an App with its topics, pipelines and views, as frozen definitions. Imports no PySpark.

* ``app``: ``App``
* ``definitions``, ``kinds``, ``folds``: topics, pipelines, views and folds as values
* ``load``: an App from a file
* ``deploy``: makes a log ready for an App
* ``changes``: the choices for a changed pipeline
* ``function_digest``: whether a function is the same as before
* ``udf_types``: UDFs without a Spark session
* ``metric_names``: Prometheus names of metrics
* ``progress``, ``state``, ``losses``: records that pipelines keep in the log
* ``control``: what an operator asks of a running pipeline: pause, resume, restart; and its log
* ``entries``: reads these records, and steps over damaged ones
* ``journey``: where a record went, and where it came from
* ``overview``: all pipelines of a log
"""
