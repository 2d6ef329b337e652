"""Writing record batches, with and without transactions.

* ``produce_window``: several Produce requests in flight
* ``producers``: producer ids
* ``transactions``: a transactional producer
* ``transaction_requests``: the requests of transactions, also of those that one process fills and another ends
"""
