"""Health, settings, metrics, access.

* ``operation_routes``: health, pipelines and groups
* ``group_routes``: one group: describe, reset, delete
* ``user_routes``, ``acl_routes``: the log's users and ACLs
* ``token_routes``: the gateway's tokens
* ``config_routes``: ``GET /config``
* ``log_metrics``: ``GET /metrics``
"""
