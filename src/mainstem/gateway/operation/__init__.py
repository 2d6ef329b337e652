"""Health, settings, metrics, access.

* ``journey_routes``: where a record went and came from
* ``operation_routes``: health, pipelines and groups
* ``group_routes``: one group: describe, reset, delete
* ``user_routes``, ``acl_routes``: the log's users and ACLs
* ``token_routes``: the gateway's tokens
* ``config_routes``: ``GET /config``
* ``log_metrics``: ``GET /metrics``
"""
