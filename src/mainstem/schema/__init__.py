"""Schemas of topics, and values by them.

* ``types``: columns with Spark SQL's types
* ``ddl``, ``infer``: schemas from DDL, dataclasses and pydantic models
* ``topic_schemas``: the schemas of all topics, in ``__mainstem_schemas``
* ``json_rows``: JSON values to a row each
* ``json_columns``: JSON values to typed columns: the one reading that all readers share
* ``arrow``, ``arrow_json``: Arrow's types, and Arrow rows as JSON
* ``avro``, ``avro_decode``, ``avro_registry``: Avro, its values to columns, and a registry with Confluent's API
* ``encoding``: rows as keys and values
* ``example``: an example of a value that fits
* ``validation``: whether a value fits its topic's schema
"""
