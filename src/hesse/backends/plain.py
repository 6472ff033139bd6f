"""Functions over an array library in a few lines: exported code brings them along (`export/helpers.py`)."""

from __future__ import annotations

import itertools
from typing import Any

Params = tuple[Any, ...]


def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)) without overflow."""
    small = xp.exp(-xp.abs(x))
    return xp.where(x < 0, small, 1.0) / (1.0 + small)


def expm_chain(xp: Any, params: Params, a: Any) -> Any:
    """The integral of e^(s1 a)[a1,b1] e^(s2 a)[a2,b2] ... over s1 + s2 + ... = 1.

    It is the last block in the first row of the exponential of a block matrix: `a` on the diagonal,
    a matrix with a single 1 beside it.
    """
    (length,) = params
    n = a.shape[-1]
    unit = xp.eye(n, a)
    blocks = xp.eye(length, a)
    rows = []
    for links in itertools.product(range(n), repeat=2 * (length - 1)):
        matrix = xp.kron(blocks, a)
        for k in range(length - 1):
            link = xp.outer(unit[links[2 * k]], unit[links[2 * k + 1]])
            matrix = matrix + xp.kron(xp.outer(blocks[k], blocks[k + 1]), link)
        rows.append(xp.expm(matrix)[:n, n * (length - 1) :])
    table = xp.stack(rows).reshape((n,) * (2 * length))
    return xp.moveaxis(table, -2, 0)
