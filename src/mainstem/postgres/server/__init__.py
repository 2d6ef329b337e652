"""Talks to the PostgreSQL server, and reads its answers.

* ``catalog``: the server, its tables and its types; refusals
* ``slot``: the publication and the replication slot
* ``replication``: the thread that takes the stream of changes
* ``copy_both``: the messages of the connection, by libpq
* ``pgoutput``: the messages of the stream
* ``streamed_transactions``: large transactions, on disk until they commit
* ``chunks``: reads a table in chunks
* ``column_types``: PostgreSQL's types as columns and JSON
"""
