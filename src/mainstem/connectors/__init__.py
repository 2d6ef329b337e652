"""Files into topics.

* ``files``: ``load``
* ``loads``, ``load_progress``: settings, progress, and exactly-once
* ``find_files``, ``sources``: which files, and reading them
* ``csv_files``, ``csv_quotes``, ``json_lines``, ``parquet_files``, ``lake_source``: one module for each format
* ``tables``, ``json_text``, ``schema_check``: rows as keys and values, checked by the schema
* ``bulk``: appends Arrow columns
"""
