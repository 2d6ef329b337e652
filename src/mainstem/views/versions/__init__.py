"""The versions of one view on disk.

* ``versions``: which version serves, and which is under construction
* ``version``: one open version: store, feed, readers
"""
