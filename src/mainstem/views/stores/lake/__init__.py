"""Lake views: Parquet files under an Iceberg table.

* ``lake``: the files and their commits
* ``lake_queries``: a lake as a SQL table
* ``lake_process``: that table in a process of its own
"""
