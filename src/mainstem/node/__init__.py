"""The processes of one machine.

* ``stack``: what ``serve``, ``run`` and ``demo`` start
* ``roles``: the kinds of process: log, gateway, registry, view host, captures, pipelines
* ``supervisor``: starts, watches, restarts and stops them
* ``child``: one running process; ``early_log``: the log process, which starts before the others
* ``layout``: the data directory
"""
