"""Files and names on disk, below everything else of the log.

* ``disk``: file operations behind one interface, so that tests can fail or lose any of them
* ``small_files``: reading and writing whole small files
* ``names``: file and directory names, as Kafka spells them
"""
