"""The page of a topic: its header and tabs, and the dialogs that change topics.

* ``topic_tabs``: the tabs and their addresses
* ``topic_header``: the figures above the tabs
* ``partitions_tab``, ``consumers_tab``, ``schema_tab``, ``configs_tab``, ``about_tab``: one tab each
* ``schema_versions``: the versions of a schema, and what differs between them
* ``action_dialog``: a form in a dialog that shows its plan before it executes it
* ``create_topic``, ``config_edit``, ``topic_actions``: the dialogs
"""
