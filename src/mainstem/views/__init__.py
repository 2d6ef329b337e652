"""The views package; see ARCHITECTURE.md for what it holds and what it may import."""

import sys

from mainstem.views.callable_package import CallablePackage

sys.modules[__name__].__class__ = CallablePackage
