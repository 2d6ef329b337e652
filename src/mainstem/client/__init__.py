"""Clients of any log that speaks the Kafka protocol.

* ``log``: ``Log``, the class that users see
* ``append``: writing records
* ``read``: reading records
* ``records``, ``values``: the records to append, and Python values as bytes
* ``dead_letter_headers``: the headers of a dead letter
* ``dead_letters``, ``handled_letters``: all dead letters by reason, and which are handled
* ``topic_follower``: every record of a small topic, in a thread
* ``http``: views, and request and reply, over HTTP
* ``admin``: for operators
* ``wire``: the protocol over sockets
* ``security``: TLS and SASL options
* ``oauth_tokens``: tokens of OAUTHBEARER, from a file or an identity provider
* ``failures``: error codes as errors
* ``bench``: measures a log
"""
