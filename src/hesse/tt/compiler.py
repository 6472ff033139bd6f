"""The compiler of loops, where it is installed: all kernels are compiled alike."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


@functools.cache
def is_installed() -> bool:
    """Whether there is a compiler."""
    return importlib.util.find_spec("numba") is not None


def compiled(kernel: Callable[..., Any]) -> Any:
    """A kernel that releases the lock of the interpreter. Sums may be taken in any order."""
    return importlib.import_module("numba").njit(**_options())(kernel)


def inner(function: Callable[..., Any]) -> Any:
    """A function for kernels alone, which takes less time to compile."""
    numba = importlib.import_module("numba")
    return numba.njit(**_options(), no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def _options() -> dict[str, Any]:
    return {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}, "boundscheck": False}


def once(make: Callable[..., T]) -> Callable[..., T]:
    """Like `functools.cache`, but one thread at a time: the compiler cannot be loaded by two at once."""
    kept = functools.cache(make)

    @functools.wraps(make)
    def found(*arguments: Any) -> T:
        with _ALONE:
            return kept(*arguments)

    return found


_ALONE = RLock()
