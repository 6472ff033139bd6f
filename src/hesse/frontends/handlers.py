"""Tables of handlers: what is done for a function of an array library, or for one of its operations."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Handlers(dict[Any, Callable[..., Any]]):
    """Handlers by functions, or by the names of operations; `others` are handled elsewhere."""

    def __init__(self, others: Container[Any] = ()) -> None:
        super().__init__()
        self._others = others

    def register(self, *keys: Any) -> Callable[[Handler], Handler]:
        """Enter the function that is defined below."""

        def entered(handler: Handler) -> Handler:
            self.enter(keys, handler)
            return handler

        return entered

    def enter(self, keys: Iterable[Any], handler: Callable[..., Any]) -> None:
        """Enter a handler that has no definition of its own."""
        for key in keys:
            if key in self or key in self._others:
                raise ValueError(f"{key} has two handlers")
            self[key] = handler
