"""Topics, brokers, groups and access for operators.

* ``access_admin``: users and ACLs
* ``cluster_admin``: brokers, their settings, and topics at a glance
* ``group_admin``: groups: describe, delete, set offsets
* ``inventory``: sizes and ends of all topics in five requests
"""
