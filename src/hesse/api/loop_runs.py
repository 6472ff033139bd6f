"""Loops as each library runs them: all carries, the first one included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Run(NamedTuple):
    """How many steps there are and in which direction, and the arrays."""

    length: int
    is_reversed: bool
    start: Any
    items: Sequence[Any]
    shared: Sequence[Any]


def run_numpy(loop: Callable[..., Any], run: Run) -> Any:
    """By a function `(rows, carry, items…, shared…)` that fills rows with the carries after each step."""
    carries = np.empty((run.length + 1, *run.start.shape), run.start.dtype)
    forward = slice(None, None, -1 if run.is_reversed else 1)
    in_order = carries[forward]
    in_order[0] = run.start
    loop(in_order[1:], run.start, *(item[forward] for item in run.items), *run.shared)
    return carries


def run_torch(step: Callable[..., Any], run: Run) -> Any:
    """By a function that computes one step."""
    import torch  # noqa: PLC0415

    carries = [run.start]
    order = range(run.length)
    for k in reversed(order) if run.is_reversed else order:
        carries += step(carries[-1], *(item[k] for item in run.items), *run.shared)
    return torch.stack(carries[::-1] if run.is_reversed else carries)


def run_jax(step: Callable[..., Any], run: Run, is_short: bool) -> Any:
    """By a function that computes one step; short loops are written out."""
    import jax  # noqa: PLC0415

    def one(carry: Any, slices: Any) -> Any:
        (after,) = step(carry, *slices, *run.shared)
        return after, after

    _, after = jax.lax.scan(one, run.start, tuple(run.items), run.length, run.is_reversed, is_short or 1)
    pieces = [run.start[None], after]
    return jax.numpy.concatenate(pieces[::-1] if run.is_reversed else pieces)
