"""Linear algebra on the last two axes; any axes before them are a batch.

Every partial is a formula over operations of this table again, so derivatives of any order exist: the
partial of an inverse is a product of inverses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.ir import (
    Apply,
    Node,
    Shape,
    constant,
    einsum,
    pairwise,
    plain_axes,
    uniform,
)
from hesse.ops.behaviour import Behaviour, whole
from hesse.ops.matrices import (
    concrete,
    cubic,
    flip,
    identity_like,
    matrix_product,
    square,
    square_rule,
    symmetric,
)
from hesse.ops.minors import may_be_singular, minors, minors_partial
from hesse.ops.registry import Equation, General, operation, register


def inverse(a: Node) -> Node:
    """The inverse of square matrices."""
    return operation("inverse", a)


def determinant(a: Node) -> Node:
    """The determinant.

    Its derivatives go through the inverse, or, where it may not exist, through minors.
    """
    return operation("determinant", a)


def adjugate(a: Node) -> Node:
    """`det(a) inverse(a)`, which exists for singular matrices, too: programs compute it in place of both."""
    return operation("adjugate", a)


def log_determinant(a: Node) -> Node:
    """`log(abs(det(a)))`, computed without the determinant, which overflows early."""
    return operation("log_determinant", a)


def sign_determinant(a: Node) -> Node:
    """The sign of the determinant: -1, 0 or 1."""
    return operation("sign_determinant", a)


def solve(a: Node, b: Node) -> Node:
    """`inverse(a) b` without forming the inverse.

    `b` holds matrices if it has as many axes as `a`, and vectors if it has one axis less; the batch axes
    of both must be equal (so unlike in NumPy, whether `b` is a batch of vectors is decided by its rank).
    """
    return operation("solve", a, b)


def triangular_solve(a: Node, b: Node, lower: bool) -> Node:
    """`solve` for triangular matrices: only the lower (or the upper) triangle of `a` is read."""
    if lower:
        return operation("triangular_solve", a, b)
    # An upper triangular matrix read backwards is a lower one.
    rows = a.rank - 2
    turned = triangular_solve(flip(flip(a, rows), rows + 1), flip(b, rows), lower=True)
    return flip(turned, rows)


def cholesky(a: Node, lower: bool | None = None) -> Node:
    """The lower triangular L with `L L' = symmetric(a, lower)`, a positive definite matrix."""
    return operation("cholesky", symmetric(a, lower))


def pseudo_inverse(a: Node) -> Node:
    """The Moore-Penrose inverse; its derivatives hold where the rank does not change (full rank)."""
    return operation("pseudo_inverse", a)


def matrix_power(a: Node, exponent: int) -> Node:
    """`a` to an integer power, by repeated squaring; negative powers go through the inverse."""
    square("matrix_power", a.shape)
    if exponent < 0:
        return matrix_power(inverse(a), -exponent)
    if exponent == 0:
        return identity_like(a)
    result: Node | None = None
    while True:
        if exponent % 2:
            result = a if result is None else matrix_product(result, a)
        exponent //= 2
        if not exponent:
            assert result is not None
            return result
        a = matrix_product(a, a)


def _solve_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    matrix, right = shapes
    size = square("solve", matrix)
    batch = matrix[:-2]
    if right[: len(batch) + 1] != (*batch, size) or len(right) > len(matrix):
        raise ShapeError(
            f"solve with matrices of shape {matrix} needs a right-hand side of shape {(*batch, size)} or "
            f"{(*batch, size, 'm')}, not {right}; broadcast the batch axes first"
        )
    return right


def _pseudo_inverse_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (shape,) = shapes
    if len(shape) < 2:
        raise ShapeError(f"pseudo_inverse needs matrices, of shape (..., m, n), not {shape}")
    return (*shape[:-2], shape[-1], shape[-2])


def _inverse_partial(y: Apply) -> Node:
    """dC = -C dA C."""
    return -pairwise("...ik,...lj->...ij...kl", y, y)


def _determinant_partial(y: Apply) -> Node:
    """d det(A) = det(A) tr(inv(A) dA)."""
    if may_be_singular():
        return minors_partial(y.operands[0], 0)
    return pairwise("...,...lk->......kl", y, inverse(y.operands[0]))


def _adjugate_partial(y: Apply) -> Node:
    """dY[i,j] = d2 det(A)/dA[j,i] dA."""
    return pairwise("...jikl->...ij...kl", minors(y.operands[0], 2))


def _log_determinant_partial(y: Apply) -> Node:
    """d log|det(A)| = tr(inv(A) dA)."""
    return pairwise("...lk->......kl", inverse(y.operands[0]))


def _solve_partial_matrix(y: Apply) -> Node:
    """dX = -inv(A) dA X."""
    a, b = y.operands
    if b.rank < a.rank:
        return -pairwise("...ik,...l->...i...kl", inverse(a), y)
    return -pairwise("...ik,...lj->...ij...kl", inverse(a), y)


def _solve_partial_right(y: Apply) -> Node:
    """dX = inv(A) dB."""
    a, b = y.operands
    return _right_partial(inverse(a), b)


def _right_partial(inverted: Node, b: Node) -> Node:
    """The partial of `inverted b` by b."""
    if b.rank < inverted.rank:
        return pairwise("...ik->...i...k", inverted)
    return pairwise("...ik,j->...ij...kj", inverted, uniform(1.0, b.shape[-1:]))


def _triangular_inverse(a: Node) -> Node:
    return triangular_solve(a, identity_like(a), lower=True)


def _triangular_partial_matrix(y: Apply) -> Node:
    """dX = -inv(T) dT X, dT being the lower triangle of dA."""
    a, b = y.operands
    triangle = constant(np.tri(concrete("triangular_solve", a.shape[-1])))
    inverted = _triangular_inverse(a)
    if b.rank < a.rank:
        return -pairwise("...ik,kl,...l->...i...kl", inverted, triangle, y)
    return -pairwise("...ik,kl,...lj->...ij...kl", inverted, triangle, y)


def _triangular_partial_right(y: Apply) -> Node:
    """dX = inv(T) dB."""
    a, b = y.operands
    return _right_partial(_triangular_inverse(a), b)


def _times(x: Node, a: Node) -> Node:
    """`a x`, for matrices or vectors x."""
    return pairwise("...ij,...j->...i" if x.rank < a.rank else "...ij,...jk->...ik", a, x)


def _lower_triangle(a: Node) -> Node:
    size = concrete("triangular_solve", a.shape[-1])
    return pairwise("...ij,ij->...ij", a, constant(np.tri(size)))


def _cholesky_change(y: Apply, r: Node) -> Node:
    axes = plain_axes(2 * y.rank)
    partial = _cholesky_partial(y)
    return einsum([partial, r], [axes, axes[y.rank :]], axes[: y.rank], y.shape, partial.shape, expand=(0,))


def _cholesky_partial(y: Apply) -> Node:
    """dL = L phi(inv(L) dA inv(L)'), phi taking the lower triangle with half of the diagonal.

    Murray, Differentiation of the Cholesky decomposition (2016), eq. 8. It holds for symmetric dA, to
    which `cholesky` restricts it.
    """
    size = concrete("cholesky", y.shape[-1])
    phi = constant(np.tril(np.ones((size, size))) - 0.5 * np.eye(size))
    inverted = _triangular_inverse(y)
    return pairwise("...ip,pj,...pk,...jl->...ij...kl", y, phi, inverted, inverted)


def _pseudo_inverse_partial(y: Apply) -> Node:
    """dP = -P dA P + P P' dA' (I - A P) + (I - P A) dA' P' P.

    Golub and Pereyra, The differentiation of pseudo-inverses (1973), eq. 4.12.
    """
    (a,) = y.operands
    rows, columns = matrix_product(a, y), matrix_product(y, a)
    outer, inner = pairwise("...ip,...lp->...il", y, y), pairwise("...pk,...pj->...kj", y, y)
    return (
        pairwise("...il,...kj->...ij...kl", outer, identity_like(rows) - rows)
        + pairwise("...il,...kj->...ij...kl", identity_like(columns) - columns, inner)
        - pairwise("...ik,...lj->...ij...kl", y, y)
    )


register(
    General(
        "inverse",
        square_rule("inverse"),
        (_inverse_partial,),
        "{}^{{-1}}",
        last_axes=2,
        flops=cubic(2.0),
        keeps_symmetry=True,
        short="inv",
        behaviour=Behaviour(domain="definite"),
        equation=Equation(lambda y, a: matrix_product(a, y), matrix_product),
    ),
    General(
        "determinant",
        square_rule("determinant", 2),
        (_determinant_partial,),
        r"\det\left({}\right)",
        last_axes=2,
        flops=cubic(2 / 3),
        short="det",
        behaviour=Behaviour(),
    ),
    General(
        "adjugate",
        square_rule("adjugate"),
        (_adjugate_partial,),
        r"\operatorname{{adj}}\left({}\right)",
        last_axes=2,
        flops=cubic(8 / 3),
        keeps_symmetry=True,
    ),
    General(
        "log_determinant",
        square_rule("log_determinant", 2),
        (_log_determinant_partial,),
        r"\log\left|\det\left({}\right)\right|",
        last_axes=2,
        flops=cubic(2 / 3),
        short="logdet",
        behaviour=Behaviour(pieces=whole("concave"), domain="definite"),
    ),
    General(
        "sign_determinant",
        square_rule("sign_determinant", 2),
        (None,),
        r"\operatorname{{sign}}\det\left({}\right)",
        last_axes=2,
        flops=cubic(2 / 3),
    ),
    General(
        "solve",
        _solve_rule,
        (_solve_partial_matrix, _solve_partial_right),
        "{}^{{-1}} {}",
        last_axes=2,
        flops=cubic(2 / 3),
        behaviour=Behaviour(domain="definite"),
        equation=Equation(_times, lambda y, r: _times(r, inverse(y.operands[0])), 1),
    ),
    General(
        "triangular_solve",
        _solve_rule,
        (_triangular_partial_matrix, _triangular_partial_right),
        "{}^{{-1}} {}",
        last_axes=2,
        flops=cubic(1.0),
        equation=Equation(
            _times,
            lambda y, r: _times(r, _triangular_inverse(y.operands[0])),
            1,
            lambda y: _lower_triangle(y.operands[0]),
        ),
    ),
    General(
        "cholesky",
        square_rule("cholesky"),
        (_cholesky_partial,),
        r"\operatorname{{chol}}\left({}\right)",
        last_axes=2,
        flops=cubic(1 / 3),
        equation=Equation(lambda y, a: pairwise("...ik,...jk->...ij", y, y), _cholesky_change, 0),
    ),
    General(
        "pseudo_inverse",
        _pseudo_inverse_rule,
        (_pseudo_inverse_partial,),
        "{}^{{+}}",
        last_axes=2,
        flops=cubic(20.0),
        keeps_symmetry=True,
        short="pinv",
    ),
)
