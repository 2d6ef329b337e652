"""An operator's commands to a running pipeline.

* ``commands``: the records that ask, and how to wait until they are carried out
"""
