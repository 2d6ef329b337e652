"""Commands about copies of a log.

* ``backup``: ``backup``
* ``restore``: ``restore``
"""
