"""The past of a view: a slider over its moments, and what changed between two of them.

* ``time_axis``: the moments on a line from the oldest to now
* ``time_machine``: the slider, its marks and the comparison
* ``changes_table``: the changed rows, before and after
"""
