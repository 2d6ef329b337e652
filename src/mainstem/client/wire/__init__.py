"""The Kafka protocol over plain sockets, synchronously: for what librdkafka does not offer.

* ``connection``: one connection
* ``cluster``: all brokers: metadata, coordinators, fetches
* ``produce``: record batches and transactions
* ``admin``: users, settings and groups
"""
