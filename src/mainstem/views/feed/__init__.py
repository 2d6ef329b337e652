"""Records of a topic, on their way into a view.

* ``feed``: fetches and decodes a topic from a bookmark on
* ``read_ahead``: its steps with their records read for a store, the next one ahead
* ``lake_feed``: the records of a lake, for what the log has removed
* ``encoded_values``: values of encoded topics as JSON
* ``batch_scan``: what batch headers say: leader epoch, missing records
* ``coverage``: the source positions that a view's position covers
* ``end_samples``: bounded staleness
* ``open_transactions``: the open transactions that hold a reader back
* ``trace_headers``: the headers by which records name their traces
* ``topic_identity``: whether a topic is still the one that a position belongs to
"""
