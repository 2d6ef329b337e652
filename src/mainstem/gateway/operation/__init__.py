"""Health, settings, metrics.

* ``operation_routes``: health, pipelines and groups
* ``group_routes``: one group: describe, reset, delete
* ``config_routes``: ``GET /config``
* ``log_metrics``: ``GET /metrics``
"""
