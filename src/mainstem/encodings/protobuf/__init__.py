"""Protobuf as an encoding of topics.

- ``protobuf_columns``: columns as a message
- ``protobuf_encode``, ``protobuf_decode``: columns into values and back
- ``protobuf_native``, ``protobuf_programs``: values into columns by the native decoder
- ``protobuf_json``: messages as JSON, by Protobuf's own library
- ``protobuf_nulls``: rows with a null that Protobuf has no form of
- ``protobuf_messages``: the classes of messages, from a schema's descriptors
"""
