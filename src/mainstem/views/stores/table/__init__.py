"""Sinks: a table of a foreign database, kept in step with a topic.

* ``table``: the store: batches and their position in one transaction
* ``table_snapshot``: one state of the table, for reads and for verification
* ``table_rows``: records as rows of the table, and which records cannot be rows
* ``table_columns``: a topic's schema as a table: types, the primary key
* ``sink_table``: the tables of one sink and their positions, in the database
* ``statements``: SQL with quoted names, and values that the driver hands over
* ``database``, ``dialect``: what each product says in its own way: connections and errors; types, catalog and SQL
* ``postgres_database``, ``postgres_dialect``: PostgreSQL
* ``mariadb_database``, ``mariadb_dialect``: MariaDB
* ``sqlite_database``, ``sqlite_dialect``: files of SQLite
"""
