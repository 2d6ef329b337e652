"""The command line.

* ``start``: the entry; ``main``: the commands' table
* ``records``: ``append``, ``read``, ``load``, ``topics``, ``bench``
* ``apps``: ``run``, ``serve``, ``pipelines``, ``views``, ``verify``
* ``security``: ``users``, ``acls``, ``tokens``
* ``operation``: ``groups``, ``log``, ``doctor``, ``version``
* ``copies``: ``backup``, ``restore``
* ``demo``: ``demo``
* ``options``, ``settings``: shared options and ``mainstem.toml``
* ``output``: what commands print
* ``connect``: the log, for a command
* ``plain_parameters``: text and paths without pydantic
* ``foreground``: commands that run until they are stopped
* ``service_manager``: what they say to systemd
"""
