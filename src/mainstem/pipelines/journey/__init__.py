"""The journey of a record: where it went, through pipelines, and where it came from. From positions alone, no tracing.

* ``finished_batches``: the topic with a record for each finished micro-batch
* ``batch_search``: the micro-batch that read or wrote an offset
* ``record_place``: whether a record is there, and if not, what it waits for
* ``key_search``: the records of one key in a range
* ``letter_search``: whether a record is a dead letter
* ``steps``: the journey as values
* ``view_steps``: the views on the way
* ``waits``: what a pipeline or a view waits for, in words
* ``journey``: puts a journey together
* ``sentences``: a journey in words
"""
