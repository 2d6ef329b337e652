"""Protobuf as an encoding of topics.

- ``protobuf_columns``: columns as a message
- ``protobuf_encode``, ``protobuf_decode``: columns into values and back
- ``protobuf_messages``: the classes of messages, from a schema's descriptors
"""
