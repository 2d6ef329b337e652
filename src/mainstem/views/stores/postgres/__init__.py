"""Sinks in PostgreSQL: a table of a foreign database, kept in step with a topic.

* ``postgres``: the store: batches and their position in one transaction
* ``postgres_snapshot``: one state of the table, for reads and for verification
* ``table_rows``: records as rows of the table, and which records cannot be rows
* ``table_columns``: a topic's schema as a table: types, the primary key
* ``sink_table``: the tables of one sink and their positions, in the database
* ``database``: connections, and errors of the database as ours
"""
