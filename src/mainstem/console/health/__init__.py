"""The node's health in the console: problems and history.

* ``chip``: the sign in the header of every page
* ``trends``: the small lines in lists
* ``history_charts``: the charts of the page History
* ``history_marks``: the marks in them: starts and changes
"""
