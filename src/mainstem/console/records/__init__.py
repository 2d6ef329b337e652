"""Records of a topic on a page.

* ``record_browser``: the browser of records
* ``record_pages``: the pages of one question
* ``seek_bar``: where to begin, in the page's address
* ``live_tail``: new records as they arrive
* ``append_form``: the form that appends a record
"""
