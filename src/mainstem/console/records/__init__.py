"""Records of a topic on a page.

* ``record_browser``: the browser of records
* ``record_pages``: the pages of one question
* ``seek_bar``: where to begin, in the page's address
* ``record_search``: a search in keys, values and headers
* ``live_tail``: new records as they arrive
* ``journey_link``: the address of a record's journey
* ``append_form``: the form that appends records
* ``bulk_append``, ``record_files``: the records of a file
* ``record_fields``: the fields of a record to append
* ``new_letters``: the link to the new dead letters of a view or pipeline
* ``letter_cards``: dead letters, to mend and to mark
"""
