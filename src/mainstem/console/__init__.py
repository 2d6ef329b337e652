"""The web page over the gateway's JSON.

* ``process``: the gateway process with the console
* ``console_mount``: sends the console's paths to the console and all others to the API
* ``site``: the app and its table of pages
* ``pages``: one module for each page
* ``query_boxes``: one module for each kind of view
* ``schemas``: the subjects of the schema registry
* ``workbench``: SQL over all views
* ``time_machine``: the past of a view
* ``records``: records of a topic
* ``topic``: the tabs of a topic's page, and the dialogs that change topics
* ``pipeline``: the parts of a pipeline's page
* ``flow``: the flow from topics to views
* ``groups``: what a group belongs to, and its reset
* ``confirmation``: the question before a deletion
* ``health``: problems and history
* ``frame``, ``parts``, ``charts``, ``formats``: what pages are made of
* ``gateway_client``, ``requests``, ``listing``: requests to the gateway
* ``access``: the tabs of the page about access
* ``palette``: finds a page by a part of its name
* ``sign_in``: the session of a browser
* ``rates``: rates of counters
"""
