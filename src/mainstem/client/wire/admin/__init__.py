"""Users, settings and groups by the protocol.

* ``access``: users and ACLs
* ``configs``: settings of brokers
* ``groups``: consumer groups
* ``group_admin``: single groups: describe, delete, set offsets
"""
