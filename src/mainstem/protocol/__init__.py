"""Frames and messages of the Kafka protocol. No I/O.

* ``codec``: bytes to messages and back
* ``messages``: one module for each API
* ``schema``, ``compiler``: declarations of messages, and readers and writers from them
* ``apis``, ``errors``: numbers and names
* ``acl_words``: the words of ACLs
* ``scram``: SCRAM, both sides
"""
