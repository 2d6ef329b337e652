"""Quotas: how much users and clients may send, read, compute and change.

* ``quotas``: limits and recent use
* ``entities``: users, client ids, and which limit applies
* ``charging``: the cost of a request
* ``windows``: rates over sliding windows, token buckets
"""
