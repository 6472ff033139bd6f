"""Finding the kernel of an operation: in the table of a target, or in its array library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hesse.errors import MissingKernelError

Kernel = Callable[..., Any]


def has(kernel: Callable[[str], Kernel], name: str) -> bool:
    """Whether `kernel` finds one of this name."""
    try:
        kernel(name)
    except MissingKernelError:
        return False
    return True


def find(name: str, table: Mapping[str, Kernel], where: str, library: Any = None) -> Kernel:
    """The kernel in a table, which is called `where`; else the function of that name in a library."""
    found: Kernel | None = table.get(name) or getattr(library, name, None)
    if found is None:
        raise MissingKernelError(
            f"{where} has no kernel for {name}; add one, {where}[{name!r}] = ..., "
            "or write the function in operations that have one"
        )
    return found
