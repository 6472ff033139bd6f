"""Traces of functions that write traced values to arrays of their own, or index known ones with them.

That shows only when it happens. Then the function is traced again, and arrays that it makes are traced, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hesse.api.surroundings import Walk
from hesse.errors import HesseError, TracingError
from hesse.frontends.making import forget
from hesse.frontends.standing_in import known_by_name
from hesse.frontends.tracing import NumbersNeeded, depth, is_need_noted, tracing_arrays

T = TypeVar("T")


def with_arrays(name: str, run: Callable[[], T], is_known: bool) -> tuple[T, bool]:
    """What a trace of a function gives; and whether its arrays had to be traced, as may be known before."""
    refusal: NumbersNeeded | None = None
    if not is_known:
        try:
            return run(), False
        except NumbersNeeded as error:
            if is_need_noted():
                raise
            refusal = error
    with tracing_arrays() as made:
        try:
            found = run()
        except Exception as error:
            forget(made)
            if refusal is None or not isinstance(error, HesseError):
                raise
            raise _both(refusal, error) from None
    if forget(made):
        raise TracingError(
            f"{name} fills arrays with traced values, and it keeps an array that it made for later calls (in "
            "an attribute, a global or a cache). Make that array outside of it, or fill np.zeros_like(x) or "
            "hesse.zeros(3) instead of np.zeros(3)."
        )
    return found, True


def _both(first: TracingError, second: HesseError) -> TracingError:
    """Which of the two is to be mended nobody knows: the second may lie in what such arrays cannot do."""
    if str(first) == str(second):
        return first
    return type(first)(f"{first} With all arrays of the function traced, it ends here: {second}")


def traced_alone(function: Callable[..., object], run: Callable[[], T]) -> T:
    """What `run` makes of a function of the user's, in a trace or outside of any.

    In a trace, what the function knows by a name of its own was found with what is around it.
    """
    if depth.get():
        return run()
    walk = Walk(function)
    with known_by_name(walk.named(), walk.names):
        return with_arrays(getattr(function, "__name__", "the function"), run, False)[0]
