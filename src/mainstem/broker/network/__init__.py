"""Bytes from and to clients: frames, memory for requests, connections.

* ``connection``: one client's connection: requests in, responses out in order
* ``pending_requests``: the requests that were begun, and which may begin beside them
* ``request_server``: serves one request: parse, handle, encode
* ``network_resources``: what all connections share: limits and memory
* ``framing``: finds whole requests in a byte stream
* ``request_memory``: how much memory requests may hold, by principal and by connection
* ``unauthenticated``: bounds connections without a user
* ``unread_answers``: bounds responses that clients do not read
"""
