"""The formats of schemas.

- ``schema_format``: the interface of each
- ``avro``, ``json_schema``, ``protobuf``: the formats
"""
