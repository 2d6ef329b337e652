"""The parts of a pipeline's page.

* ``pipeline_commands``: the menu that pauses, resumes and restarts it
"""
