"""The only package that imports pyspark: the ``mainstem`` data source, sessions, and the runner of pipelines."""
