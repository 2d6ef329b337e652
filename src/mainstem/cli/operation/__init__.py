"""Commands about a node and its machine.

* ``groups``: ``groups``
* ``log``: ``log``
* ``doctor``: ``doctor``
* ``checks``: what the doctor checks
* ``health``: ``health``
* ``mcp``: ``mcp``
* ``mirror``: ``mirror``
* ``promote``: ``promote``
* ``version``: ``version``
"""
