"""Commands about Apps, pipelines and views.

* ``run``: ``run``
* ``serve``: ``serve``
* ``served_backup``: the backup that these two start
* ``pipelines``: ``pipelines``
* ``views``: ``views``
* ``verify``: ``verify``
* ``captures``: ``connect``
"""
