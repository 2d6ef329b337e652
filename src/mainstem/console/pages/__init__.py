"""One module for each page.

* ``flow_page``: the flow from topics to views
* ``topics_page``: all topics
* ``topic_page``: one topic
* ``views_page``: all views
* ``view_page``: one view
* ``pipelines_page``: pipelines
* ``dead_letters_page``: what views and pipelines could not use
* ``groups_page``: groups
* ``config_page``: settings
"""
