"""All brokers of a cluster: the leaders of partitions, and reads from them.

* ``cluster``: ``WireClient``: raw fetches and raw batches
* ``metadata``: brokers, topics and leaders
* ``coordinated``: requests to the coordinator of a group or a transactional id
* ``fetching``: Fetch requests and their results
* ``producing``: Produce requests
* ``listed_offsets``: ListOffsets requests and their results
* ``stored_records``: waits for records that the log has to load from a store
* ``damage``: offsets of damaged batches
* ``topics``: create, delete and describe topics
"""
