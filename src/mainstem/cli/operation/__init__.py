"""Commands about a node and its machine.

* ``groups``: ``groups``
* ``log``: ``log``
* ``doctor``: ``doctor``
* ``checks``: what the doctor checks
* ``health``: ``health``
* ``mcp``: ``mcp``
* ``why``: ``why``
* ``version``: ``version``
"""
