"""Commands about Apps, pipelines and views.

* ``run``: ``run``
* ``serve``: ``serve``
* ``pipelines``: ``pipelines``
* ``views``: ``views``
* ``verify``: ``verify``
* ``captures``: ``connect``
"""
