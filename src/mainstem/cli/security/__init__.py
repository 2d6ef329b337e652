"""Commands about users, ACLs, tokens and signing keys.

* ``acls``: ``acls``
* ``users``: ``users``
* ``tokens``: ``tokens``
* ``keys``: ``keys``
"""
