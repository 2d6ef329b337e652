"""The parts of one group's page beside its tables, and the page of clients.

* ``clients_page``: the metrics that clients push
* ``group_owner``: what a group belongs to
* ``reset_wizard``: the dialog that moves a group's offsets
"""
