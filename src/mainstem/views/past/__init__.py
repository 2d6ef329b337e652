"""A view as of a past position.

* ``as_of``: positions and times of the past
* ``past_build``: builds a store as of a position
* ``historical_stores``: past stores that were asked for lately
"""
