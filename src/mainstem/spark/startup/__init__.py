"""Preparation of a Spark session: Java, environment, fast start of Python and the JVM.

* ``environment``: checks and completes the environment variables that Spark reads
* ``java``: finds a Java that Spark can run on
* ``java_classes``: finds classes in Spark's jars
* ``fork_server``: a process that forks Python workers with all imports done
* ``fork_client``: stands in for the Python that Spark's JVM starts
* ``class_archive``: class-data sharing for Spark's JVM
* ``local_files``: Hadoop's local file system, without a process for each file
* ``app_files``: an App's own Python files on the workers' path
"""
