"""Avro.

- ``avro_format``: the format, as the registry sees it
- ``avro_reader``, ``avro_writer``: types from text and to text
- ``avro_types``: the types
- ``avro_compatibility``: which schema reads data of which
"""
