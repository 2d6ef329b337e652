"""HTTP for topics, views and operation.

* ``server``: the processes and their apps
* ``access``: tokens, limits, origins
* ``http``: bodies, answers, problems, the OpenAPI document
* ``registry``: the schema registry
* ``topics``, ``streams``, ``requests``, ``views``, ``operation``: the routes and what serves them
* ``durable``: Durable Streams
* ``monitoring``: the history and the problems of the node
"""
