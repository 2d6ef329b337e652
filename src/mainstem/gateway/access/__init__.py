"""Who may ask what: tokens, limits, origins.

* ``routes``: routes, each declared in one place
* ``access_rules``: the scope that a request requires
* ``token_auth``: bearer tokens (RFC 6750)
* ``tokens``: the file of tokens
* ``private_connections``: whether others can listen in
* ``request_limits``: limits of requests, and protection from other web pages
* ``limits``: limits that are settings
* ``cors``: other origins (CORS)
* ``hop_headers``: headers between gateway and view hosts
* ``request_heads``: limits of request lines and headers
"""
