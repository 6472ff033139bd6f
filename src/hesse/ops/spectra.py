"""Eigenvalues, eigenvectors and exponentials of matrices, on the last two axes.

The partials of eigenvalues and eigenvectors are products of eigenvectors and reciprocal gaps, that of an
exponential is the next `expm_chain`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.ir import (
    Apply,
    Node,
    Shape,
    add,
    broadcast,
    constant,
    multiply,
    pairwise,
    plain_axes,
    reciprocal,
    view,
)
from hesse.ops.behaviour import Behaviour
from hesse.ops.matrices import concrete, cubic, square, square_rule, symmetric
from hesse.ops.registry import General, operation, register


def eigvalsh(a: Node, lower: bool | None = None) -> Node:
    """The eigenvalues of `symmetric(a, lower)` in ascending order; derivatives need distinct eigenvalues."""
    return operation("eigvalsh", symmetric(a, lower))


def eigenvectors(a: Node, lower: bool | None = None) -> Node:
    """The orthonormal eigenvectors of `symmetric(a, lower)` as columns, in the order of `eigvalsh`.

    Their signs are those of the back end. Derivatives need distinct eigenvalues.
    """
    return operation("eigenvectors", symmetric(a, lower), params=("U",) if lower is False else ())


def expm(a: Node) -> Node:
    """The matrix exponential."""
    return expm_chain(a, 1)


def expm_chain(a: Node, length: int) -> Node:
    """The integral of exp(s1 A)[a1,b1] … exp(sk A)[ak,bk] over all s >= 0 with the sum 1."""
    return operation("expm_chain", a, params=(length,))


def _chain_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (shape,) = shapes
    length: int = params[0]
    return shape[:-2] + (square("expm", shape),) * (2 * length)


def _chain_partial(y: Apply) -> Node:
    """dT_k[a1,b1, …, ak,bk]/dA[p,q] = sum over m of T_(k+1)[a1,b1, …, am,p, q,bm, …, ak,bk].

    T_k is the integral of e^(s1 A)[a1,b1] … e^(sk A)[ak,bk] over s1 + … + sk = 1, s >= 0. The rule is
    Duhamel's formula, which cuts one exponential in two at dA.
    """
    (a,), (length,) = y.operands, y.params
    longer = expm_chain(a, length + 1)
    axes = plain_axes(longer.rank)
    batch, chain = axes[: a.rank - 2], axes[a.rank - 2 :]
    cuts = [2 * link + 1 for link in range(length)]
    outputs = [(*batch, *chain[:cut], *chain[cut + 2 :], *batch, *chain[cut : cut + 2]) for cut in cuts]
    shape = y.shape + a.shape
    return add([view(longer, axes, output, shape, longer.shape) for output in outputs], shape)


def _eigenvalue_partial(y: Apply) -> Node:
    """dλ_i = v_i' dA v_i."""
    vectors = operation("eigenvectors", *y.operands)
    return pairwise("...ki,...li->...i...kl", vectors, vectors)


def _eigenvector_partial(y: Apply) -> Node:
    """dV = V (F ∘ (V' dA V)) with F_pj = 1/(λ_j - λ_p) off the diagonal and zero on it."""
    gaps = reciprocal_gaps(operation("eigvalsh", *y.operands))
    return pairwise("...ip,...pj,...kp,...lj->...ij...kl", y, gaps, y, y)


def reciprocal_gaps(values: Node) -> Node:
    """`1/(values[j] - values[i])` off the diagonal, zero on it."""
    size = concrete("eigenvectors", values.shape[-1])
    shape = (*values.shape, size)
    leading = list(range(values.rank - 1))
    by_row = broadcast(values, shape, [*leading, values.rank - 1])
    by_column = broadcast(values, shape, [*leading, values.rank])
    # The diagonal is moved from 0 to 1 before the reciprocal, so that neither a value nor a derivative is
    # ever infinite; dense masks rather than unit tensors keep this one product.
    unit = broadcast(constant(np.eye(size)), shape, [values.rank - 1, values.rank])
    rest = broadcast(constant(1.0 - np.eye(size)), shape, [values.rank - 1, values.rank])
    return multiply(rest, reciprocal(by_column - by_row + unit))


register(
    General(
        "expm_chain",
        _chain_rule,
        (_chain_partial,),
        r"\exp\left({}\right)",
        last_axes=2,
        flops=cubic(40.0),
        behaviour=Behaviour(),
    ),
    General(
        "eigvalsh",
        square_rule("eigvalsh", 1),
        (_eigenvalue_partial,),
        r"\lambda\left({}\right)",
        last_axes=2,
        flops=cubic(4 / 3),
    ),
    General(
        "eigenvectors",
        square_rule("eigenvectors"),
        (_eigenvector_partial,),
        r"\operatorname{{eigenvectors}}\left({}\right)",
        last_axes=2,
        flops=cubic(9.0),
    ),
)
