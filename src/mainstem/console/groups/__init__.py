"""The parts of one group's page beside its tables.

* ``group_owner``: what a group belongs to
* ``reset_wizard``: the dialog that moves a group's offsets
"""
