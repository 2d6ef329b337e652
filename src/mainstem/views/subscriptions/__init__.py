"""Changes of views, for streams.

* ``subscriptions``: who waits for changes, and of which keys
* ``change_rows``: changes with their rows
* ``changes``: a counter that threads wait on
"""
