"""Who a client is: listeners, TLS, SASL, users.

* ``security``: the TLS contexts and the first session of a connection
* ``certificates``: names in certificates, and TLS contexts from PEM files
* ``credentials``: SCRAM credentials in the metadata log
* ``local_users``: users of a data directory that no process has open
* ``principal``: a principal: kind and name
* ``sasl``: the SASL exchange of one connection
* ``oauth``, ``oauth_keys``: OAUTHBEARER tokens, and the keys of their issuer
* ``session``: the principal and the address of a connection
* ``listeners``: addresses to listen on and their security protocols
"""
