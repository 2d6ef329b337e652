"""The flow as a graph and as a picture.

* ``flow_graph``: nodes, arrows and their places
* ``flow_picture``: the graph as SVG
* ``flow_numbers``: the numbers in the picture
* ``lag_trends``: which lags rise
* ``node_panel``: the numbers and links of one node
* ``followed_position``, ``follow_bar``: a position on its way through the flow
"""
