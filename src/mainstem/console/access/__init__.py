"""The tabs of the page about access, and a console that changes nothing.

* ``access_tab``: what the tabs have in common
* ``users_tab``: the log's users
* ``acls_tab``: the log's ACLs, and what a user may do
* ``acl_explainer``: what a user may do, by the ACLs
* ``tokens_tab``: the gateway's tokens
* ``read_only``: the gateway as a console sees it that changes nothing
"""
