"""HTTP itself: bodies, answers, problems.

* ``bodies``: JSON bodies, checked
* ``record_bodies``: the body of an append, as a model
* ``body_slices``: the records of a large body, one after the other
* ``json_responses``: JSON answers with their position
* ``problem_responses``: problem documents (RFC 9457)
* ``problem_pages``: ``GET /problems/SLUG``
* ``answer_schemas``: JSON schemas of answers
* ``description``: the OpenAPI document
* ``description_page``: the same as a page, ``GET /docs``
* ``queries``: query parameters of every route
* ``blocking``: blocking work in a bounded number of threads
* ``key_paths``: a key at the end of a path
* ``unix_http``: HTTP over the Unix sockets of other processes
"""
