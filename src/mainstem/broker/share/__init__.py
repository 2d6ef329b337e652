"""Share groups (KIP-932): many members take records of one partition, each acknowledges what it took.

``in_flight`` is the state of one share partition, ``delivery`` the pure steps on it, and ``state_records`` the form in
which ``__share_group_state`` keeps it.
"""
