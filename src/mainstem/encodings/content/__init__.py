"""Whether keys and values fit the schemas that they name: what the log asks for topics that validate content.

- ``content_worker``: the process
- ``content_check``: one batch, record by record
- ``value_readers``: one key or value by its schema
"""
