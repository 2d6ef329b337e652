"""Topics over HTTP.

* ``topic_routes``: append, read, list, describe
* ``dead_letter_routes``, ``dead_letter_json``: the dead letters of views and pipelines
* ``topic_details``: partitions, consumers and configs of a topic
* ``topic_changes``: create, change and delete topics, delete their oldest records
* ``tree_routes``: checkpoints, tiles and proofs of verifiable topics
* ``topic_json``: topics and groups as JSON
* ``record_json``: records as JSON
* ``reads``: bounded reads
* ``conditions``: conditions by headers, entity tags
"""
