"""The schema registry: schemas under subjects and ids, in a topic of the log.

- ``registry``: the operations
- ``registration``, ``deletion``, ``settings``: their steps over a state
- ``associations``: subjects of topics
- ``store``: reads and writes the topic, as if there were one registry only
- ``data_contracts``: what a config adds to schemas
- ``parsing``: schemas with their references
- ``requests``: what clients send, checked
- ``names``: subjects and contexts, checked
- ``errors``: refusals and their codes
- ``formats``: Avro, JSON Schema and Protobuf
"""
