"""History and problems: the gateway samples what its own routes and the log's metrics tell.

* ``client_routes``: ``/clients``, the metrics that clients push
* ``snapshots``: one look at the node, and the numbers in it
* ``ring_file``: the file that keeps samples over a restart
* ``history``: the samples of an hour and of a day
* ``problem_rules``: what counts as a problem
* ``problem_watch``: the problems of this moment, each with its beginning
* ``alert_webhook``: sends the problems that begin and end to a URL
* ``marks``: starts and changes, for charts over time
* ``monitor``: the task that samples
* ``monitoring_routes``: ``/history``, ``/history/marks`` and ``/health/problems``
"""
