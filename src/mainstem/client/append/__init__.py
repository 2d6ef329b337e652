"""Getting records into the log.

* ``appending``: picks the way of an append: a session for few records, librdkafka for many
* ``append_options``: conditions and idempotency keys of an append
* ``producer``: bulk appends over librdkafka
* ``librdkafka``: log lines of librdkafka
* ``session``: appends of a few records over one wire client
* ``transaction``: transactions over several topics and groups
"""
