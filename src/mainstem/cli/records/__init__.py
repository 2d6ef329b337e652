"""Commands about records and topics.

* ``append``: ``append``
* ``read``: ``read``
* ``prove``: ``prove``
* ``load``: ``load``
* ``progress_bar``: the progress of a load
* ``bench``: ``bench``
* ``topics``: ``topics``
* ``dead_letters``: ``dead-letters``
"""
