"""Groups with members of both protocols, and groups that change their protocol while members are there (KIP-848).

* ``membership``: JoinGroup, SyncGroup, Heartbeat, LeaveGroup of groups of either type
* ``conversion``: a consumer group from a classic one, and back
* ``mixed_steps``: pure steps of members that speak the classic protocol in a consumer group
* ``embedded``: the subscriptions and assignments that such members send and get
"""
