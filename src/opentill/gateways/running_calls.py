"""Counts an adapter's running calls, so that a replaced adapter is closed when they have ended."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

from opentill.gateways.model import Gateway

_NOT_COUNTED: Final = ("close",)


class RunningCalls:
    """The number of an adapter's calls that are running."""

    def __init__(self, adapter: Gateway) -> None:
        """Count the calls of an adapter's coroutine methods from now on."""
        self.number = 0
        self._idle = asyncio.Event()
        self._idle.set()
        for name in dir(type(adapter)):
            if name.startswith("_") or name in _NOT_COUNTED:
                continue
            method = getattr(adapter, name)
            if inspect.iscoroutinefunction(method):
                # The instance's attribute hides the method of its class.
                setattr(adapter, name, self._counting(method))

    def _counting(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(method)
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.number += 1
            self._idle.clear()
            try:
                return await method(*args, **kwargs)
            finally:
                self.number -= 1
                if not self.number:
                    self._idle.set()

        return counted

    async def wait_until_idle(self) -> None:
        """Wait until no call is running."""
        await self._idle.wait()
