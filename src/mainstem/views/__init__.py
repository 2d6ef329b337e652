"""Views: indexes that follow a topic, answer questions and say which position an answer reflects.

* ``host``: all views of a process
* ``feed``: records on their way into a view
* ``stores``: the contract of a store, and its kinds
* ``versions``: versions of a view on disk
* ``past``: a view as of a past position
* ``verification``: comparing a view with its topic
* ``subscriptions``: changes of views, for streams
* ``requests``: the questions, as values
* ``read_options``: how fresh an answer has to be
* ``status``: the state of a view, as a value
* ``callable_package``: makes ``ms.views(url)`` a function and this package at once
"""

import sys

from mainstem.views.callable_package import CallablePackage

sys.modules[__name__].__class__ = CallablePackage
