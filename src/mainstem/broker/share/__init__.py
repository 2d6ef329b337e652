"""Share groups (KIP-932): many members take records of one partition, each acknowledges what it took.

``in_flight`` is the state of one share partition and ``delivery`` the pure steps on it; ``members`` and ``member_steps``
are the same for a group; ``assignor`` says who reads what. ``state_records`` and ``group_records`` are the forms in
which ``__share_group_state`` and ``__consumer_offsets`` keep both; ``sessions`` keeps what each member fetches.
"""
