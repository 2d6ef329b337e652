"""What a user declares: an App with its topics, pipelines and views, as frozen definitions. Imports no pyspark."""
