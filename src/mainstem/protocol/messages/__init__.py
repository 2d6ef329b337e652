"""The messages of the Kafka protocol, one module an API, as Apache Kafka 4.3 defines them; loaded when first used.

Field names, types, versions and defaults are Kafka's (its names in snake_case). The tests prove readers and writers of
every message and version against an independent implementation of the same definitions.
"""
