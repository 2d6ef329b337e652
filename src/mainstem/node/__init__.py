"""The processes of one machine.

* ``stack``: what ``serve``, ``run`` and ``demo`` start
* ``roles``: the four kinds of process
* ``supervisor``: starts, watches, restarts and stops them
* ``child``: one running process
* ``layout``: the data directory
* ``extras``: the optional parts of the installation
"""
