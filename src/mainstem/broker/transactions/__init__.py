"""Transactions: what a transactional id is (``state``), its pure steps (``steps``), their records in
``__transaction_state`` (``records``), and the coordinator that runs them (``coordinator``) and ends them in every
partition (``markers``).
"""
