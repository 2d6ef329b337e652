"""Records of a topic on a page.

* ``record_browser``: the browser of records
* ``record_pages``: the pages of one question
* ``append_form``: the form that appends a record
"""
