"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

* ``classic_group``: the state of one group
* ``classic_steps``: pure steps: (state, request, time) → effects
* ``classic_coordinator``: runs the steps, writes their records, keeps their deadlines
* ``subscription``: the topics that a member subscribes to
"""
