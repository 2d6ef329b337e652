"""One name for two things: ``mainstem.views`` is this package, and ``ms.views(url)`` asks the views behind a gateway.

Importing the package, which anything may do, puts it where the function was to be found. So the package can be called,
and does what the function does. Stateless.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.client.http.views import Views


class CallablePackage(ModuleType):
    """A module that is called as ``mainstem.client.http.views.views`` is."""

    def __call__(self, *arguments: Any, **options: Any) -> Views:
        """The views behind a gateway."""
        from mainstem.client.http.views import views

        return views(*arguments, **options)
