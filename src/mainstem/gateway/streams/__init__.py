"""Topics as server-sent events.

* ``stream_routes``: the routes
* ``topic_stream``: one reader's stream
* ``topic_tail``: one follower for all readers of a topic
* ``piece_ring``: the newest pieces of a topic, in bounded memory
* ``topic_frames``: records as events, and a reader's filter
* ``event_stream``: an event stream as a response
* ``event_format``: events as bytes
* ``route_patterns``: patterns over routing keys
* ``topic_search``, ``search_conditions``: a search through a topic's records
* ``browser_module``: ``GET /client.js``
"""
