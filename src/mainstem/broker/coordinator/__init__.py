"""The parts that the coordinators of groups, share groups and transactions share.

* ``coordinator_log``: the runtime: append the records of a change, apply it, answer when it is durable
* ``effects``: the result of a step: records to write, then answers
* ``replay``: reads an internal topic whole at start
* ``timers``: one timer for each group
"""
