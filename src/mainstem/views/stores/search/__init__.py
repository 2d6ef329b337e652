"""Search views, in tantivy.

* ``search``: full text over chosen fields
"""
