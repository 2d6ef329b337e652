"""The node's health in the console: problems and history.

* ``chip``: the sign in the header of every page
* ``trends``: the small lines in lists
* ``history_panel``: charts over time, with the choice of the span
* ``history_charts``: which series the charts show
* ``history_marks``: the marks in them: starts and changes
"""
