"""Durable Streams: the open HTTP protocol over topics with a key index; a stream is the records of one key.

* ``stream_offsets``: offsets as tokens, and the cursors of live reads
* ``stream_config``: the configuration of a stream, and the range of each field
* ``stream_fields``: the protocol's headers and parameters, checked
* ``stream_messages``: bodies as stored values, JSON arrays cut into messages, events of live reads
* ``stream_events``: what one record says about its stream, as record headers
* ``stream_state``: the state of a stream as the sum of its events
* ``stream_checks``: whether a request fits the state, and why not
* ``stream_forks``: where the data of a fork lies
* ``stream_log``: streams over ``Log``: state, conditional appends, bounded reads
* ``stream_changes``: create, fork, append, close and delete
* ``stream_feeds``: one follower of a topic for all live reads of its keys
* ``live_reads``: long polls and server-sent events
* ``stream_answers``: answers in the protocol's headers
* ``durable_stream_routes``: the routes under ``/streams``
"""
