"""Commands about users, ACLs and tokens.

* ``acls``: ``acls``
* ``users``: ``users``
* ``tokens``: ``tokens``
"""
