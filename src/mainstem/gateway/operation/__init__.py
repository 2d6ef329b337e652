"""Health, settings, metrics.

* ``operation_routes``: health, pipelines and groups
* ``config_routes``: ``GET /config``
* ``log_metrics``: ``GET /metrics``
"""
