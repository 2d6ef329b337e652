"""JSON Schema.

- ``json_schema_format``: the format, as the registry sees it
- ``json_schema_nodes``: a schema as a graph of subschemas
- ``json_schema_compatibility``, ``json_schema_keywords``, ``json_schema_contents``: which schema reads data of which
- ``json_schema_values``: whether a value is valid under a schema
- ``json_schema_writer``: all that is known of the data of a schema that writes
"""
