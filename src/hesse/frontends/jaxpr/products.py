"""Products of arrays."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.jaxpr.table import is_truth, primitive, traced


@primitive("dot_general")
def dot_general(
    x: Any, y: Any, dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], ...], **_: Any
) -> Any:
    """Products summed over pairs of axes; batch axes first, then those of `x`, then those of `y`."""
    if is_truth(x) and is_truth(y):
        return NotImplemented
    (summed_x, summed_y), (batch_x, batch_y) = dimension_numbers
    letters = iter(string.ascii_letters)
    of_x = {axis: next(letters) for axis in (*batch_x, *summed_x)}
    of_y = dict(zip((*batch_y, *summed_y), of_x.values(), strict=True))
    own_x = [of_x[axis] if axis in of_x else next(letters) for axis in range(np.ndim(x))]
    own_y = [of_y[axis] if axis in of_y else next(letters) for axis in range(np.ndim(y))]
    kept = [own_x[axis] for axis in batch_x]
    kept += [label for axis, label in enumerate(own_x) if axis not in of_x]
    kept += [label for axis, label in enumerate(own_y) if axis not in of_y]
    return np.einsum(f"{''.join(own_x)},{''.join(own_y)}->{''.join(kept)}", traced(x), traced(y))
