"""Consumer groups: members and rebalances, committed offsets, and the log that both are a replay of.

``classic`` holds a group's state, ``classic_steps`` and ``offsets`` the pure steps ``(state, request, now) → effects``,
``records`` the form in which ``__consumer_offsets`` keeps them, and ``coordinator`` runs all of it.
"""
