"""SQL views, in DuckDB.

* ``sql``: a typed table under the view's name
* ``sql_process``: the table in a process of its own, as the view host sees it
* ``served_table``: the table in that process
* ``query_process``: a process that answers SQL, also over a lake, as its parent sees it
* ``query_server``: that process
* ``query_forks``: forks it from a process that has imported what it needs
* ``sql_table``: the table in its DuckDB file
* ``sql_queries``: one bounded SELECT
* ``sql_types``: a topic's schema as DuckDB types
* ``query_bounds``: bounds of a query and of its answer
* ``query_watch``: ends queries that exceed their time or memory
"""
