"""Finding the kernel of an operation: in the table of a target, or in its array library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hesse.backends.names import Named
from hesse.errors import MissingKernelError

Kernel = Callable[..., Any]


def has(kernel: Callable[[str], Kernel], name: str) -> bool:
    """Whether `kernel` finds one of this name."""
    try:
        kernel(name)
    except MissingKernelError:
        return False
    return True


def find(
    name: str,
    table: Mapping[str, Kernel],
    where: str,
    names: Mapping[str, Named] | None = None,
    library: Any = None,
) -> Kernel:
    """The kernel in a table, which is called `where`; else the function that a library has for it.

    That is the one of the table of names, or one that has the name of the row.
    """
    found: Kernel | None = table.get(name)
    if found is None and names and name in names:
        found = names[name].function()
    if found is None:
        found = getattr(library, name, None)
    if found is None:
        raise MissingKernelError(
            f"{where} has no kernel for {name}; add one, {where}[{name!r}] = ..., "
            "or write the function in operations that have one"
        )
    return found
