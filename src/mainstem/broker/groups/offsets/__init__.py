"""Committed offsets.

* ``offsets``: the committed offsets and their expiry
* ``pending_offsets``: offsets of open transactions
* ``transactional_offsets``: TxnOffsetCommit: checked, written, decided by markers
"""
