"""Views over HTTP.

* ``view_routes``: the routes, for the gateway and for a view host
* ``view_stream``: a view's changes as events
* ``backend``: the interface behind the routes
* ``forwarding``: sends requests on to view hosts
"""
