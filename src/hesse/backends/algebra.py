"""Linear algebra for solvers, over an array library.

`Target.algebra` is a `Namespace` of the functions of the library and of these:

- `raises`: whether solvers look at values and raise errors at once. Where not, what went wrong is nan: values
  may be on a device, or not be known while a function is traced.
- `is_hidden(*arrays)`: whether values cannot be looked at, because a function is traced or captured.
- `is_fixed(*arrays)`: whether they can be, and nobody asks for derivatives. Only then a method may rest on
  what the values happen to be: Cholesky's method has derivatives along symmetric matrices only.
- `compiled(function, *settings)`: `function(namespace, *settings, …)` as a function of arrays.
- `iterated(step, times, state)`: the state after so many steps.
- `quiet()`: a context without warnings of NumPy.
- `probe(size, like)`: a column that meets every direction, to find nearly singular matrices with.
- `add_to_diagonal(matrices, amount)`: perhaps in place.
- `solve_positive(matrix, right)`: by Cholesky's method; None or nan where the matrix is not positive.
- `solve_tridiagonal(lower, main, upper, right)` where there is one with pivots, else None.
- `conjugate_gradients(product, parts, right, precondition, tolerance)`: for a symmetric positive definite
  matrix that is given by its `product(parts, x)`; derivatives by the parts are those of the solution.
- `eye`, `zeros`, `arange`: as for records, like an array.
- `sparse(values, rows, columns, shape, layout)`: a sparse matrix, repeated positions added up, in one of the
  `sparse_layouts` of the library, of which the first is the usual one. Positions are NumPy arrays.
- `in_order(array)`: in memory in the order of its axes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MOST_STEPS = 10_000
"""Steps of conjugate gradients."""


def probe(xp: Any, size: int, like: Any) -> Any:
    """Numbers between 1/2 and 1 with signs, by which libraries without a cheap generator do."""
    noise = xp.sin(xp.arange(size, like) * 12.9898 + 1.0) * 43758.5453
    fraction = (noise - xp.floor(noise))[:, None]
    return fraction - 1.0 * (fraction < 0.5)


class Places(NamedTuple):
    """The distinct positions of a sparse matrix row by row, and for each given one which of them it is."""

    rows: np.ndarray
    columns: np.ndarray
    which: np.ndarray


def places(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Places:
    """The distinct ones of some positions."""
    flat, which = np.unique(rows.astype(np.int64) * shape[1] + columns, return_inverse=True)
    return Places(*np.divmod(flat, shape[1]), which)
