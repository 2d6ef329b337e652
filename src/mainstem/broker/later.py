"""``Later``: a response that comes later, and calls back in the same turn of the event loop in which it comes.

An asyncio future calls back in the next turn. That is a poll of all sockets later, and a record that waited for the
disk has waited long enough. ``Later`` has the part of a future's interface that the broker uses, and can be awaited.

Concurrency: the event loop only. A callback runs inside of ``set_result``: call it where the state is consistent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Later(Generic[T]):
    """A result, an error or a cancellation, given once."""

    __slots__ = ("_callbacks", "_error", "_is_done", "_result")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Later[T]], object]] = []
        self._is_done = False
        self._result: T | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether it has a result or an error, or was cancelled."""
        return self._is_done

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return isinstance(self._error, asyncio.CancelledError)

    def exception(self) -> BaseException | None:
        """The error, if that came instead of a result."""
        return self._error

    def result(self) -> T:
        """The result. Raises the error that came instead."""
        assert self._is_done, "the result is not there yet"
        if self._error is not None:
            raise self._error
        return cast("T", self._result)

    def set_result(self, result: T) -> None:
        """Give the result; the callbacks run now."""
        self._end(result, None)

    def set_exception(self, error: BaseException) -> None:
        """Give an error; the callbacks run now."""
        self._end(None, error)

    def cancel(self) -> bool:
        """Give it up, if it is not done; the callbacks run now."""
        if self._is_done:
            return False
        self._end(None, asyncio.CancelledError())
        return True

    def add_done_callback(self, callback: Callable[[Later[T]], object]) -> None:
        """Call ``callback`` when it is done, or now."""
        if self._is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _end(self, result: T | None, error: BaseException | None) -> None:
        assert not self._is_done, "it has a result already"
        self._is_done, self._result, self._error = True, result, error
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception as fault:  # noqa: BLE001 - as on the loop: the giver has results for others, too
                context = {"message": "a callback of a response failed", "exception": fault}
                asyncio.get_running_loop().call_exception_handler(context)
        self._callbacks.clear()

    def __await__(self) -> Generator[Any, Any, T]:
        if not self._is_done:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def wake(_: Later[T]) -> None:
                if not future.done():
                    future.set_result(None)

            self.add_done_callback(wake)
            try:
                yield from future
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()
