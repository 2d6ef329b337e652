"""The pages of the schema registry.

* ``subjects_page``: all subjects
* ``subject_page``: one subject: a version, and what differs from another one
* ``schema_texts``: schemas as lines, and the lines that differ
* ``registry_requests``: requests to the registry
"""
