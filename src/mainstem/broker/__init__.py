"""The log as a server that speaks the Kafka protocol.

* ``process``, ``server``: start, listen, stop
* ``node``: the parts of a running broker, put together
* ``network``: connections and frames
* ``apis``, ``api``, ``call``: the table of APIs, the declaration of one, one request
* ``dispatch``: serves a request, behind its API's guard
* ``handlers``: one module for each API
* ``security``, ``access``, ``quotas``: who a client is, what it may do, how much it may use
* ``configs``: settings
* ``storage``: topics, appends, fetches, flushes, compaction, retention
* ``coordinator``: the runtime that the coordinators share
* ``groups``, ``share``, ``transactions``: the coordinators
* ``metrics``: ``/metrics``
* ``telemetry``: metrics that clients send
* ``error_codes``: errors as error codes
* ``api_features``: the features that ApiVersions lists
* ``later``: a response that comes later
* ``chores``: supervised background tasks
* ``slices``: long requests in slices, so that the event loop stays free
"""
