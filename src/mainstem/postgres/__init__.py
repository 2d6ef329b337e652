"""Changes of a PostgreSQL database as topics: each table a topic, a snapshot first, then every change, exactly once.

* ``connector``: runs a capture, again after failures, and publishes its state; ``process`` is its process
* ``requests``: requests to a capture: to read a table again, to end for good
* ``capture``: the loop: changes in, records out, commits
* ``start``: compares the database with what was captured before; makes topics, publication and slot
* ``changes``: each kind of change, as records
* ``row_runs``: many simple changes at once, by the machine code of ``native``
* ``table_snapshots``: snapshots of tables beside the stream; ``windows``: what the stream changes meanwhile
* ``table_writer``, ``rows``: rows as keys and values of their topics
* ``encoded_values``: values in Avro, JSON Schema or Protobuf
* ``topic_values``: values that a topic has already
* ``captured_state``: how far a capture is, as records of the log
* ``transaction_writer``: transactions of the log
* ``server``: talks to the PostgreSQL server
"""
