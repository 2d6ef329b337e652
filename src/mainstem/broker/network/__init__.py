"""Bytes from and to clients: frames, memory for requests, connections.

* ``connection``: one client's connection: requests in, responses out in order
* ``framing``: finds whole requests in a byte stream
* ``request_memory``: how much memory requests may hold, by principal and by connection
* ``unauthenticated``: bounds connections without a user
* ``unread_answers``: bounds responses that clients do not read
"""
