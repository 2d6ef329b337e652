"""Request and reply over HTTP.

* ``request_routes``: the routes
* ``request_reply``: appends a request, finds its reply
* ``reply_follower``: follows reply topics
"""
