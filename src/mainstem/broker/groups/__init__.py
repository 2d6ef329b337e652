"""Groups: members, rebalances and committed offsets. All state is a replay of ``__consumer_offsets``.

* ``coordinator``: shared by all types of groups; the coordinator of each type plugs in here
* ``group_types``: the interface between ``coordinator`` and the types
* ``assigned_group``, ``assigned_coordinator``: what the types share whose assignment the log makes
* ``classic``: classic groups
* ``consumer``: consumer groups (KIP-848)
* ``streams``: streams groups (KIP-1071)
* ``migration``: groups that change their protocol while members are there
* ``offsets``: committed offsets
* ``records``: records in Kafka's format
* ``group_log``: ``__consumer_offsets``
* ``catalog``: the node's topics, for subscriptions
* ``member_bytes``: how much metadata a member may have
"""
