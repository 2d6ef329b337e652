"""Users, settings and groups by the protocol.

* ``access``: users and ACLs
* ``configs``: settings of brokers and topics
* ``partitions``: ends and sizes of partitions, and the deletion of records
* ``groups``: consumer groups
* ``group_admin``: single groups: describe, delete, set offsets
* ``share_offsets``: where share groups begin
* ``quotas``: quotas of users and clients
"""
