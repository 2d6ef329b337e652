"""The SQL workbench: one page over all views that answer SQL.

* ``workbench``: the editor, the runs and the page's address
* ``view_tree``: views, their columns and types
* ``answer_tabs``: an answer as rows, chart, JSON and code
* ``downloads``: an answer as CSV, JSON and Parquet
* ``kept_queries``: the history and the saved queries in the browser
"""
