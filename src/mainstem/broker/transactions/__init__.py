"""Transactions: the coordinator and its state.

* ``state``: a transactional id: producer, epoch, status, partitions
* ``steps``: pure steps: init, add, end, time out, complete
* ``coordinator``: runs the steps and writes their records
* ``records``: records of ``__transaction_state``
* ``markers``: writes markers to the partitions of a transaction
* ``producing``: transactional batches in a Produce request
"""
