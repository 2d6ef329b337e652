"""The processes: gateway and view host.

* ``app``: the public API as one app
* ``host_app``: the API of a view host
* ``serving``: runs an app until it is stopped
* ``process``: the gateway process
* ``view_host_process``: the view host process
* ``front_page``: ``GET /`` without the console
"""
