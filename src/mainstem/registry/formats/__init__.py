"""The formats of schemas.

- ``schema_format``: what each format does
- ``avro``, ``avro_types``, ``avro_reader``, ``avro_writer``: Avro, its types, from text and to text
- ``avro_compatibility``: its rules
- ``json_schema``, ``json_schema_nodes``: JSON Schema, and its graph of subschemas
- ``json_schema_compatibility``, ``json_schema_keywords``, ``json_schema_contents``, ``json_schema_writer``: its rules
- ``protobuf``, ``protobuf_compiler``, ``protobuf_text``: Protobuf, the run of its compiler, the text of a descriptor
- ``protobuf_compatibility``: its rules
"""
