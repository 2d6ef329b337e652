"""Rows to records by machine code that is kept on the machine.

* ``row_code``: the memory that is shared with it, and where it is kept
* ``native_rows``: the code, as numba compiles it; ``native_values``: values as JSON. Only the compiler loads them
"""
