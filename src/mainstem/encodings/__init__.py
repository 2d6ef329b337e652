"""Values of topics in Avro, JSON Schema or Protobuf, which a schema registry describes, instead of plain JSON.

- ``encoded_records``: records for the API and the commands
- ``topic_values``: encoding and decoding for programs
- ``registration``: a topic's columns in its log and in the schema registry
- ``encoders``: the encoders of a topic's values and keys, whose schemas it registers
- ``key_encoder``, ``key_decoder``: key columns into encoded keys, and these as text
- ``json_values``: encoded values as JSON, and JSON as encoded values
- ``value_encoder``: columns into a topic's values
- ``value_decoder``: values of any registered schema into columns
- ``avro_columns``, ``json_schema_columns``: columns as a schema
- ``protobuf``: columns as a Protobuf message, into its values and back
- ``avro_encode``: columns into Avro values
- ``column_numbers``: columns as the native encoders take them
- ``writer_schemas``: schemas by their ids, kept
- ``content``: whether keys and values fit the schemas that they name, for the log
- ``frames``: the schema ids in front of values and in headers
"""
