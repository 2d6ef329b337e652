"""Commands about a node and its machine.

* ``groups``: ``groups``
* ``log``: ``log``
* ``doctor``: ``doctor``
* ``checks``: what the doctor checks
* ``health``: ``health``
* ``graduate``: ``graduate``
* ``adopt``: ``adopt``
* ``directory_report``: what these two list
* ``mcp``: ``mcp``
* ``mirror``: ``mirror``
* ``promote``: ``promote``
* ``why``: ``why``
* ``version``: ``version``
"""
