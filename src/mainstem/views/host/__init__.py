"""Views in one process: apply, ask, rebuild.

* ``host``: one directory, one process, one thread for each view
* ``view``: one view: queries, rebuild, verify, delete
* ``runner``: the thread of one view
* ``applied_line``: when a view had applied what
* ``waited_reads``: the reads that had to wait for a view
* ``dead_letter_topic``: the topic of a view's poison
* ``pipeline_states``: the newest state of each pipeline
* ``progress_follower``: follows the progress topic
* ``schemas``: the schema behind a SQL or lake view
"""
