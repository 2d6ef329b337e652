"""Topics, brokers and groups for operators.

* ``cluster_admin``: brokers, their settings, and topics at a glance
* ``group_admin``: groups: describe, delete, set offsets
* ``inventory``: sizes and ends of all topics in five requests
"""
