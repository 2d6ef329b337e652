"""Asking a node over HTTP.

* ``http``: JSON over HTTP on kept connections
* ``requests``: request and reply over HTTP
* ``views``: questions to views
* ``request_reply``: the headers of request and reply over the log
* ``worker``: answers the requests of a topic, exactly once
"""
