"""One module for each page.

* ``flow_page``: the flow from topics to views
* ``topics_page``: all topics
* ``topic_page``: one topic
* ``journey_page``: the journey of a record
* ``views_page``: all views
* ``view_page``: one view
* ``sql_page``: the SQL workbench
* ``pipelines_page``: pipelines
* ``dead_letters_page``: what views and pipelines could not use
* ``groups_page``: groups
* ``group_page``: one group
* ``access_page``: users, ACLs and tokens
* ``history_page``: charts over time
* ``problems_page``: what is wrong
* ``config_page``: settings
"""
