"""Authorization: ACLs, the authorizer, and the guards by which each API declares the rights that it requires.

* ``acls``: ACLs as values
* ``authorizer``: decides, with Kafka's rules
* ``guards``: how a guard wraps a handler, and the common shapes
* ``admin_guards``, ``group_guards``, ``record_guards``: guards of other shapes
* ``refusals``: responses that refuse
"""
