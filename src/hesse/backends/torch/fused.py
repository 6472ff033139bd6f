"""Programs sent through `torch.compile`, whose first results are compared with those of the program as it is.

The compiler has been seen to give wrong results (a sum over 10,000 rows on CUDA, float32). A comparison costs
one run beside seconds of compiling; where it fails, the program runs as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Function = Callable[..., tuple[Tensor, ...]]
TOLERATED = 30.0
"""Results may differ by so many times the root of the precision, relative to their largest entry."""


class Fused:
    """A program that `torch.compile` has fused, once it is known to compute the same."""

    def __init__(self, function: Function) -> None:
        self._plain = function
        self._fused: Function = torch.compile(_with_own_code(function), fullgraph=True, dynamic=False)
        self._is_checked = False

    def __call__(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        results = self._fused(*arrays)
        if self._is_checked:
            return results
        self._is_checked = True
        with torch.no_grad():
            expected = self._plain(*arrays)
        if are_close(results, expected):
            return results
        warnings.warn(
            "torch.compile fuses this program into one that computes something else; it runs as it is",
            stacklevel=2,
        )
        self._fused = self._plain
        return self._plain(*arrays)


def _with_own_code(function: Function) -> Function:
    """The function, called by code that no other function has.

    The compiler counts by code how often it compiles, and refuses after eight times; before PyTorch 2.13 it
    calls all functions that do not stand in a file from one piece of code of its own.
    """

    def program(*arrays: Tensor) -> tuple[Tensor, ...]:
        return function(*arrays)

    program.__code__ = program.__code__.replace()
    return program


def are_close(results: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """Whether results are the same up to rounding; where both are no numbers, they are."""
    for one, other in zip(results, expected, strict=True):
        if not other.numel() or not other.dtype.is_floating_point:
            continue
        one, other = one.detach(), other.detach()  # noqa: PLW2901
        finite = torch.isfinite(other)
        if not torch.equal(finite, torch.isfinite(one)):
            return False
        scale = torch.where(finite, other.abs(), 0).max()
        apart = torch.where(finite, (one - other).abs(), 0).max()
        if bool(apart > TOLERATED * torch.finfo(other.dtype).eps ** 0.5 * scale):
            return False
    return True
