"""Programs in slices: a loop over rows of arrays, which JAX can batch and differentiate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax


def in_slices(
    functions: tuple[Callable[..., Sequence[Array]], Callable[..., Sequence[Array]]],
    starts: range,
    arrays: Sequence[Array],
    cuts: Sequence[int | None],
    ends: Sequence[int | None],
) -> list[Array]:
    """The results of a function called for slices of arrays; the second function is for what is left then.

    `cuts` are the axes along which the arrays are cut (None: not at all) and `ends` those along which the
    results are put together (None: they are added up). If nothing is added up the last slice is as long as
    the others and begins earlier: the loop is all there is to compile.
    """
    length, rows = starts.stop, starts.step
    overlaps = None not in ends
    count = len(starts) if overlaps else length // rows

    def parts(function: Callable[..., Sequence[Array]], start: Array | int, rows: int) -> Sequence[Array]:
        return function(
            *(
                array if cut is None else lax.dynamic_slice_in_dim(array, start, rows, cut)
                for array, cut in zip(arrays, cuts, strict=True)
            )
        )

    def added(totals: Sequence[Array], pieces: Sequence[Array], start: Array | int) -> list[Array]:
        return [
            total + piece if end is None else lax.dynamic_update_slice_in_dim(total, piece, start, end)
            for total, piece, end in zip(totals, pieces, ends, strict=True)
        ]

    def step(k: Array, totals: list[Array]) -> list[Array]:
        start = jnp.minimum(k * rows, length - rows) if overlaps else k * rows
        return added(totals, parts(functions[0], start, rows), start)

    totals = [
        jnp.zeros([length if k == end else size for k, size in enumerate(piece.shape)], piece.dtype)
        for piece, end in zip(jax.eval_shape(lambda: parts(functions[0], 0, rows)), ends, strict=True)
    ]
    totals = lax.fori_loop(0, count, step, totals)
    start = count * rows
    return added(totals, parts(functions[1], start, length - start), start) if start < length else totals
