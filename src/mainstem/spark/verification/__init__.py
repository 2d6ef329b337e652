"""Verifying pipelines: run as a batch, then compare.

* ``verification``: verifies one pipeline
* ``record_comparison``: compares records and topics in Spark
* ``encoded_records``: records of encoded topics as JSON
* ``comparison_rules``: compares one key's records
* ``caveats``: reasons why a difference may be right
* ``result``: results for people and for programs
* ``verify_process``: verifies pipelines in a process of its own
"""
