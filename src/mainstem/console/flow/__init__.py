"""The flow as a graph and as a picture.

* ``flow_graph``: nodes, arrows and their places
* ``flow_picture``: the graph as SVG
"""
