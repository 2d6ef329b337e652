"""One connection to one broker.

* ``connection``: requests and responses over one connection
* ``connections``: the open connections of a client, by address
* ``transport``: sockets
* ``tls``: TLS over them
* ``login``: SASL on a new connection
* ``pool``: clients that threads borrow
* ``deadline``: how long to retry, and the pauses between
"""
