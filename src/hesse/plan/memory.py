"""How much memory a program may take: a share of what is free, unless a limit is set."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

from hesse.errors import ArgumentError, MemoryLimitError
from hesse.plan.program import Program

SHARE = 0.5
"""The share of the free memory that a program may take by default."""
ALWAYS_ALLOWED = 2**26
"""Programs that need fewer bytes than this are not checked."""

_limit: float | None = None


def set_memory_limit(limit: float | None) -> None:
    """Refuse programs that need more than `limit` bytes; None: half of the memory that is free then.

    The limit is one for the whole process: it holds in every thread, from the next program on.

    >>> import hesse
    >>> hesse.set_memory_limit(2e9)
    >>> hesse.set_memory_limit(None)
    """
    given: object = limit  # whatever the annotation says
    if limit is not None and not (isinstance(given, Real) and limit > 0):
        raise ArgumentError(f"a memory limit must be a positive number of bytes or None, not {limit!r}")
    global _limit  # noqa: PLW0603 -- one setting for the process
    _limit = limit


def allowed_bytes(free_bytes: Callable[[], int]) -> float:
    """The bytes a program may take now, where so many are free."""
    limit = _limit  # read once: another thread may set it meanwhile
    return SHARE * free_bytes() if limit is None else limit


def is_always_allowed(needed: float) -> bool:
    """Whether so many bytes are too few to be checked."""
    return needed < ALWAYS_ALLOWED and _limit is None


def fits_memory(program: Program, itemsize: int, free_bytes: Callable[[], int]) -> bool:
    """Whether a program needs no more memory than it may take."""
    needed = program.peak_elements() * itemsize
    return is_always_allowed(needed) or needed <= allowed_bytes(free_bytes)


def check_memory(
    program: Program, itemsize: int, advice: Callable[[], str], free_bytes: Callable[[], int]
) -> None:
    """Refuse a program that would not fit, before any of its work is done."""
    if not fits_memory(program, itemsize, free_bytes):
        needed = program.peak_elements() * itemsize
        allowed = bytes_text(allowed_bytes(free_bytes))
        text = f"this would take {bytes_text(needed)}, more than the {allowed} allowed."
        parts = [text, advice(), "hesse.set_memory_limit changes the limit."]
        raise MemoryLimitError(" ".join(part for part in parts if part))


def bytes_text(count: float) -> str:
    """A number of bytes for people: `12.8 GB`."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
