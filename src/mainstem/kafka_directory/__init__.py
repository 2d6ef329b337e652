"""Log directories of Apache Kafka: made out of Mainstem's, and taken over as Mainstem's.

* ``graduation``: a directory that Apache Kafka starts on
* ``adoption``: a directory that Mainstem starts on, out of a stopped Kafka's
* ``stopped_node``: a Mainstem data directory, read
* ``stopped_kafka``: a Kafka log directory, read and checked
* ``cluster_state``: topics, rights and settings of either
* ``metadata_records``: the same as records of ``__cluster_metadata``
* ``metadata_files``: the bytes of its snapshots and log
* ``directory_files``: which files are linked and which copied
* ``gaps``: the offsets that Kafka's compaction leaves out
* ``left_behind``: what one side lacks, and what to do instead
* ``stored_coordination``: the groups and transactional ids in a log's files
* ``report``: the list of what goes along
* ``server_properties``: the settings to start Apache Kafka with
"""
