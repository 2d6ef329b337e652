"""Groups: members and rebalances, committed offsets, and the log that both are a replay of.

``coordinator`` is what all types of groups have in common, and where the coordinator of each type hooks in
(``group_types`` says how); ``group_log`` writes their records and gives answers when those are durable. Classic groups:
``classic`` holds a group's state, ``classic_steps`` the pure steps ``(state, request, now) → effects``, and
``classic_coordinator`` runs them. Consumer groups (KIP-848) likewise: ``consumer``, ``consumer_steps`` with
``reconcile`` and ``assignors``, ``consumer_coordinator``. ``records`` and ``consumer_records`` are the form in which
``__consumer_offsets`` keeps all of it.
"""
