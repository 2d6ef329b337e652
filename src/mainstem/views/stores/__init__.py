"""The stores of views: the contract of a store, and one package for each kind.

* ``store``: the contract of every store
* ``store_kinds``: which store serves which kind
* ``store_snapshots``: snapshots of a store on disk
* ``close_digest``: the digest of a store when it was closed
* ``json_reader``: JSON values to Arrow columns, and which values are poison
* ``hashing``: the hash of one entry, for digests
* ``rows``: rows as plain JSON values
* ``key_value``: key-value views, in RocksDB
* ``sql``: SQL views, in DuckDB
* ``graph``: graph views, in SQLite
* ``search``: search views, in tantivy
* ``metrics``: metrics views, in memory with snapshots
* ``lake``: lake views: Parquet files under an Iceberg table
* ``table``: sinks: tables of foreign databases
"""
