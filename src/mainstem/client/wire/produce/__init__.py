"""Writing record batches, with and without transactions.

* ``produce_window``: several Produce requests in flight
* ``producers``: producer ids
* ``transactions``: a transactional producer
* ``prepared``: transactions that one process fills and another one ends
"""
