"""Topics, brokers, groups and access for operators.

* ``access_admin``: users and ACLs
* ``cluster_admin``: brokers, their settings, and topics at a glance
* ``group_admin``: groups: describe, delete, set offsets
* ``record_deletion``: delete the oldest records of a topic
* ``topic_consumers``: the groups that read a topic
* ``open_transactions``: the open transactions of topics, and whose they are
* ``inventory``: sizes and ends of all topics in five requests
"""
