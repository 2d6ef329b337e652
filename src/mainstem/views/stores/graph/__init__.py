"""Graph views, in SQLite.

* ``graph``: one edge for each record
* ``graph_walks``: neighbors and paths, breadth first
* ``graph_digest``: an incremental digest of the edges
"""
