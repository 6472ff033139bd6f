"""Linear algebra on the last two axes; any axes before them are a batch.

Every partial is a formula over operations of this table again, so derivatives of any order exist: the
partial of an inverse is a product of inverses, that of a matrix exponential the next `expm_chain`, those
of eigenvalues and eigenvectors products of eigenvectors and reciprocal gaps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.ir import (
    Apply,
    Node,
    Shape,
    Size,
    add,
    broadcast,
    constant,
    delta,
    einsum,
    multiply,
    pairwise,
    plain_axes,
    reciprocal,
    select,
    uniform,
    view,
)
from hesse.ops.behaviour import Behaviour, whole
from hesse.ops.registry import Equation, General, operation, register

ShapeRule = Callable[[tuple[Shape, ...], tuple[Any, ...]], Shape]
Cost = Callable[[tuple[Shape, ...]], float]


def inverse(a: Node) -> Node:
    """The inverse of square matrices."""
    return operation("inverse", a)


def determinant(a: Node) -> Node:
    """The determinant.

    Its derivatives go through the inverse, and from the second order on they need regular matrices.
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
    turned = triangular_solve(_flip(_flip(a, rows), rows + 1), _flip(b, rows), lower=True)
    return _flip(turned, rows)


def cholesky(a: Node, lower: bool | None = None) -> Node:
    """The lower triangular L with `L L' = symmetric(a, lower)`, a positive definite matrix."""
    return operation("cholesky", symmetric(a, lower))


def symmetric(a: Node, lower: bool | None) -> Node:
    """The symmetric matrices that have one triangle of `a`; None: the symmetric part.

    Of matrices with symbolic sizes it is the symmetric part in any case.
    """
    if lower is None:
        return symmetric_part(a)
    size = _square("a symmetric matrix function", a.shape)
    turned = pairwise("...ij->...ji", a)
    if turned is a or isinstance(size, str):
        return symmetric_part(a)
    kept = np.tri(size) if lower else np.tri(size).T
    return pairwise("...ij,ij->...ij", a, constant(kept)) + pairwise(
        "...ij,ij->...ij", turned, constant(1.0 - kept)
    )


def pseudo_inverse(a: Node) -> Node:
    """The Moore-Penrose inverse; its derivatives hold where the rank does not change (full rank)."""
    return operation("pseudo_inverse", a)


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


def matrix_power(a: Node, exponent: int) -> Node:
    """`a` to an integer power, by repeated squaring; negative powers go through the inverse."""
    _square("matrix_power", a.shape)
    if exponent < 0:
        return matrix_power(inverse(a), -exponent)
    if exponent == 0:
        return _identity_like(a)
    result: Node | None = None
    while True:
        if exponent % 2:
            result = a if result is None else matrix_product(result, a)
        exponent //= 2
        if not exponent:
            assert result is not None
            return result
        a = matrix_product(a, a)


def matrix_product(a: Node, b: Node) -> Node:
    """`a b` on the last two axes, the batch axes being equal."""
    return pairwise("...ij,...jk->...ik", a, b)


def symmetric_part(a: Node) -> Node:
    """`(a + a')/2`."""
    _square("a symmetric matrix function", a.shape)
    return (a + pairwise("...ij->...ji", a)) / 2.0


def _flip(a: Node, axis: int) -> Node:
    """An axis read backwards."""
    return select(a, [slice(None, None, -1) if k == axis else slice(None) for k in range(a.rank)])


def _identity_like(a: Node) -> Node:
    return broadcast(delta(a.shape[-1:]), a.shape, [a.rank - 2, a.rank - 1])


def _square(name: str, shape: Shape) -> Size:
    """The size n of square matrices."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{name} needs square matrices, of shape (..., n, n), not {shape}")
    return shape[-1]


def _square_rule(name: str, dropped: int = 0) -> ShapeRule:
    """The shape of the operand, a square matrix, without the last `dropped` axes."""

    def rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
        (shape,) = shapes
        _square(name, shape)
        return shape[: len(shape) - dropped]

    return rule


def _solve_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    matrix, right = shapes
    size = _square("solve", matrix)
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


def _chain_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (shape,) = shapes
    length: int = params[0]
    return shape[:-2] + (_square("expm", shape),) * (2 * length)


def _cubic(factor: float) -> Cost:
    """`factor * n^3` for each matrix of the first operand."""

    def cost(shapes: tuple[Shape, ...]) -> float:
        sizes = [size for size in shapes[0] if isinstance(size, int)]
        return factor * math.prod(sizes) * sizes[-1]

    return cost


def _inverse_partial(y: Apply) -> Node:
    """dC = -C dA C."""
    return -pairwise("...ik,...lj->...ij...kl", y, y)


def _determinant_partial(y: Apply) -> Node:
    """d det(A) = det(A) tr(inv(A) dA)."""
    return pairwise("...,...lk->......kl", y, inverse(y.operands[0]))


def _adjugate_partial(y: Apply) -> Node:
    """dY = (tr(Y dA) Y - Y dA Y)/det(A)."""
    minors = pairwise("...ij,...lk->...ij...kl", y, y) - pairwise("...ik,...lj->...ij...kl", y, y)
    batch = plain_axes(y.rank - 2)
    factor = reciprocal(determinant(y.operands[0]))
    axes = plain_axes(minors.rank)
    return einsum([minors, factor], [axes, batch], axes, minors.shape, minors.shape)


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
    return triangular_solve(a, _identity_like(a), lower=True)


def _triangular_partial_matrix(y: Apply) -> Node:
    """dX = -inv(T) dT X, dT being the lower triangle of dA."""
    a, b = y.operands
    triangle = constant(np.tri(_concrete("triangular_solve", a.shape[-1])))
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
    size = _concrete("triangular_solve", a.shape[-1])
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
    size = _concrete("cholesky", y.shape[-1])
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
        pairwise("...il,...kj->...ij...kl", outer, _identity_like(rows) - rows)
        + pairwise("...il,...kj->...ij...kl", _identity_like(columns) - columns, inner)
        - pairwise("...ik,...lj->...ij...kl", y, y)
    )


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
    size = _concrete("eigenvectors", values.shape[-1])
    shape = (*values.shape, size)
    leading = list(range(values.rank - 1))
    by_row = broadcast(values, shape, [*leading, values.rank - 1])
    by_column = broadcast(values, shape, [*leading, values.rank])
    # The diagonal is moved from 0 to 1 before the reciprocal, so that neither a value nor a derivative is
    # ever infinite; dense masks rather than unit tensors keep this one product.
    unit = broadcast(constant(np.eye(size)), shape, [values.rank - 1, values.rank])
    rest = broadcast(constant(1.0 - np.eye(size)), shape, [values.rank - 1, values.rank])
    return multiply(rest, reciprocal(by_column - by_row + unit))


def _concrete(name: str, size: Size) -> int:
    if isinstance(size, str):
        raise ShapeError(f"the derivative of {name} needs concrete sizes, not {size}; bind the size first")
    return size


register(
    General(
        "inverse",
        _square_rule("inverse"),
        (_inverse_partial,),
        "{}^{{-1}}",
        last_axes=2,
        flops=_cubic(2.0),
        keeps_symmetry=True,
        short="inv",
        behaviour=Behaviour(domain="definite"),
        equation=Equation(lambda y, a: matrix_product(a, y), matrix_product),
    ),
    General(
        "determinant",
        _square_rule("determinant", 2),
        (_determinant_partial,),
        r"\det\left({}\right)",
        last_axes=2,
        flops=_cubic(2 / 3),
        short="det",
        behaviour=Behaviour(),
    ),
    General(
        "adjugate",
        _square_rule("adjugate"),
        (_adjugate_partial,),
        r"\operatorname{{adj}}\left({}\right)",
        last_axes=2,
        flops=_cubic(8 / 3),
        keeps_symmetry=True,
    ),
    General(
        "log_determinant",
        _square_rule("log_determinant", 2),
        (_log_determinant_partial,),
        r"\log\left|\det\left({}\right)\right|",
        last_axes=2,
        flops=_cubic(2 / 3),
        short="logdet",
        behaviour=Behaviour(pieces=whole("concave"), domain="definite"),
    ),
    General(
        "sign_determinant",
        _square_rule("sign_determinant", 2),
        (None,),
        r"\operatorname{{sign}}\det\left({}\right)",
        last_axes=2,
        flops=_cubic(2 / 3),
    ),
    General(
        "solve",
        _solve_rule,
        (_solve_partial_matrix, _solve_partial_right),
        "{}^{{-1}} {}",
        last_axes=2,
        flops=_cubic(2 / 3),
        behaviour=Behaviour(domain="definite"),
        equation=Equation(_times, lambda y, r: _times(r, inverse(y.operands[0])), 1),
    ),
    General(
        "triangular_solve",
        _solve_rule,
        (_triangular_partial_matrix, _triangular_partial_right),
        "{}^{{-1}} {}",
        last_axes=2,
        flops=_cubic(1.0),
        equation=Equation(
            _times,
            lambda y, r: _times(r, _triangular_inverse(y.operands[0])),
            1,
            lambda y: _lower_triangle(y.operands[0]),
        ),
    ),
    General(
        "cholesky",
        _square_rule("cholesky"),
        (_cholesky_partial,),
        r"\operatorname{{chol}}\left({}\right)",
        last_axes=2,
        flops=_cubic(1 / 3),
        equation=Equation(lambda y, a: pairwise("...ik,...jk->...ij", y, y), _cholesky_change, 0),
    ),
    General(
        "pseudo_inverse",
        _pseudo_inverse_rule,
        (_pseudo_inverse_partial,),
        "{}^{{+}}",
        last_axes=2,
        flops=_cubic(20.0),
        keeps_symmetry=True,
        short="pinv",
    ),
    General(
        "expm_chain",
        _chain_rule,
        (_chain_partial,),
        r"\exp\left({}\right)",
        last_axes=2,
        flops=_cubic(40.0),
        behaviour=Behaviour(),
    ),
    General(
        "eigvalsh",
        _square_rule("eigvalsh", 1),
        (_eigenvalue_partial,),
        r"\lambda\left({}\right)",
        last_axes=2,
        flops=_cubic(4 / 3),
    ),
    General(
        "eigenvectors",
        _square_rule("eigenvectors"),
        (_eigenvector_partial,),
        r"\operatorname{{eigenvectors}}\left({}\right)",
        last_axes=2,
        flops=_cubic(9.0),
    ),
)
