"""Verifying views.

* ``verify``: replays a topic and compares
* ``sampling``: verifies in the background, bucket by bucket
* ``diff``: the difference of two states
* ``diff_request``: the request for a difference, as a value
"""
