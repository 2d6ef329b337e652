"""Boxes that ask a view: one module for each kind.

* ``box``: what all boxes share
* ``registry``: which box belongs to which kind
* ``key_value``, ``sql``, ``search``, ``graph``, ``metrics``: the boxes
"""
