"""Options of the data source, checked.

* ``options``: options of reads and writes
* ``read_options``: options of a read
* ``value_options``: options of typed columns
* ``security_options``: options of security
* ``columns``: columns of a read
"""
