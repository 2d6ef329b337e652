"""The parts of a pipeline's page.

* ``pipeline_commands``: the menu that pauses, resumes and restarts it
* ``run_log_card``: its log, and the Spark plan of its latest run
"""
