"""Dead letters of share groups (KIP-1191): records that a group gave up, in a topic of their own.

* ``letters``: the dead letter of a record, and batches of them. Pure functions
* ``letter_rules``: the topics that may take dead letters, and what a group has set
* ``letter_writer``: reads the records, writes the letters, and says when they are durable
"""
