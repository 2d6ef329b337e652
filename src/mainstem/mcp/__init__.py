"""``mainstem mcp``: the gateway's HTTP API as tools of the Model Context Protocol, for agents.

* ``answers``: what a tool answers: bounded in bytes, and marked as data
* ``gateway``: questions to the gateway, asked again for less until the answer fits
* ``topic_tools``: tools of topics and pipelines
* ``view_tools``: tools of views
* ``server``: the server with its tools, resources and prompt
* ``serving``: the server over standard input and output, or HTTP on loopback
"""
