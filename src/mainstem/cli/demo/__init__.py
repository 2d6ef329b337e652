"""``mainstem demo``: a year of real flights through the log, Spark and the views.

* ``command``: the command
* ``steps``: what it does, step by step
* ``data``: where the data comes from and goes to
* ``questions``: what it asks the views
* ``report``: what it prints
"""
