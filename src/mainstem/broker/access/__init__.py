"""Authorization: ACLs, the authorizer, and the rights that each API requires.

* ``acls``: ACLs as values
* ``authorizer``: decides, with Kafka's rules
* ``table``: one line for each API; an API without a line is refused
* ``guards``: how a guard wraps a handler, and the common shapes
* ``admin_guards``, ``group_guards``, ``record_guards``: guards of other shapes
* ``refusals``: responses that refuse
"""
