"""What one group's page shows and does beside its tables.

* ``group_owner``: what a group belongs to
* ``reset_wizard``: the dialog that moves a group's offsets
"""
