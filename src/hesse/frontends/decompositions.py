"""Singular values and orthogonal factors as NumPy computes them, signs included, with rules for derivatives.

They are functions from elsewhere: the factors are those of LAPACK, on the host, and their tangents are
expressions in the factors themselves, so that derivatives of any order follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.calculus.foreign import DerivedRule, LinearMap
from hesse.errors import ShapeError
from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node, known_sizes
from hesse.frontends.tracing import untraceable
from hesse.ir import (
    Apply,
    Node,
    Size,
    constant,
    multiply,
    pairwise,
    reciprocal,
    variable,
)
from hesse.ops.foreign import Output, foreign
from hesse.ops.linalg import inverse
from hesse.ops.spectra import reciprocal_gaps

Shapes = tuple[tuple[int, ...], ...]


class SingularValues(NamedTuple):
    """The result of `np.linalg.svd`."""

    U: Any
    S: Any
    Vh: Any


class OrthogonalTriangular(NamedTuple):
    """The result of `np.linalg.qr`."""

    Q: Any
    R: Any


def _product(a: Node, b: Node) -> Node:
    return pairwise("...ij,...jk->...ik", a, b)


def _turned(a: Node) -> Node:
    return pairwise("...ij->...ji", a)


def _scaled(a: Node, factors: Node) -> Node:
    """The columns of matrices times factors."""
    return pairwise("...ij,...j->...ij", a, factors)


def _rest(frame: Node, change: Node) -> Node:
    """What of a change is orthogonal to orthonormal columns."""
    return change - _product(frame, pairwise("...ji,...jk->...ik", frame, change))


class _Factors(DerivedRule):
    """Factors of matrices; `tangents` says their changes for a change of the matrices."""

    def __init__(
        self,
        name: str,
        compute: Callable[[Any], Sequence[Any]],
        shapes: Callable[[tuple[int, ...]], Sequence[tuple[int, ...]]],
        tangents: Callable[[Sequence[Node], Node], Sequence[Node]],
    ) -> None:
        super().__init__(name)
        self._compute, self._shapes, self._tangents = compute, shapes, tangents

    def outputs(self, shapes: Shapes) -> tuple[Output, ...]:
        return tuple(Output(tuple(shape)) for shape in self._shapes(shapes[0]))

    def call(self, *arrays: Any) -> Sequence[Any]:
        return list(self._compute(arrays[0]))

    def tangent(self, node: Apply, slot: int) -> LinearMap:
        factors = foreign(self, *node.operands)
        direction = variable(f"tangent of {self!r}", node.operands[0].shape, ["tangent"])
        value = self._tangents(factors, direction)[node.params[1]]
        return LinearMap(value, direction, (direction,), (*factors, *node.operands))


def _svd_shapes(is_full: bool) -> Callable[[tuple[int, ...]], Sequence[tuple[int, ...]]]:
    def shapes(shape: tuple[int, ...]) -> Sequence[tuple[int, ...]]:
        *batch, rows, columns = shape
        few = min(rows, columns)
        left, right = (rows, columns) if is_full else (few, few)
        return [(*batch, rows, left), (*batch, few), (*batch, right, columns)]

    return shapes


def _svd_tangents(factors: Sequence[Node], change: Node) -> Sequence[Node]:
    """dU = U (F ∘ (P S + S P')) + (I - U U') dA V / S with P = U' dA V, F_ij = 1/(s_j² - s_i²); V likewise.

    Of the further columns of full matrices only the space that they span is determined; they turn no more
    than that does.
    """
    left, values, right = factors
    few = values.shape[-1]
    u, v = _first_columns(left, few), _first_columns(_turned(right), few)
    inner = pairwise("...ji,...jk,...kl->...il", u, change, v)
    gaps = reciprocal_gaps(multiply(values, values))
    by_values, turned = _scaled(inner, values), _turned(inner)
    turn_left = multiply(gaps, by_values + _turned(by_values))
    by_rows = pairwise("...i,...ij->...ij", values, inner)
    turn_right = multiply(gaps, by_rows + _scaled(turned, values))
    inverted = reciprocal(values)
    d_left = _product(u, turn_left) + _scaled(_rest(u, _product(change, v)), inverted)
    d_right = _product(v, turn_right) + _scaled(_rest(v, _product(_turned(change), u)), inverted)
    whole_left, whole_right = _with_complement(left, u, d_left), _with_complement(_turned(right), v, d_right)
    return [whole_left, pairwise("...ii->...i", inner), _turned(whole_right)]


def _first_columns(a: Node, count: Size) -> Node:
    return Expression(a)[..., :count].node  # type: ignore[no-any-return]


def _with_complement(whole: Node, first: Node, change: Node) -> Node:
    """The change of all columns, the first of which are given: the others stay orthogonal to these."""
    if whole.shape == first.shape:
        return change
    others = Expression(whole)[..., first.shape[-1] :].node
    turned = _product(first, pairwise("...ji,...jk->...ik", change, others))
    return as_node(np.concatenate([Expression(change), -Expression(turned)], -1))


def _qr_shapes(shape: tuple[int, ...]) -> Sequence[tuple[int, ...]]:
    *batch, rows, columns = shape
    return [(*batch, rows, columns), (*batch, columns, columns)]


def _qr_tangents(factors: Sequence[Node], change: Node) -> Sequence[Node]:
    """dQ = Q W + (I - Q Q') dA inv(R), dR = (Q' dA inv(R) - W) R, W the skew matrix below the diagonal."""
    q, r = factors
    inverted = inverse(r)
    moved = _product(change, inverted)
    inner = pairwise("...ji,...jk->...ik", q, moved)
    below = pairwise("...ij,ij->...ij", inner, constant(np.tri(r.shape[-1], k=-1)))  # type: ignore[arg-type]
    skew = below - _turned(below)
    return [_product(q, skew) + _rest(q, moved), _product(inner - skew, r)]


SVD = {
    is_full: _Factors(
        "svd", functools.partial(np.linalg.svd, full_matrices=is_full), _svd_shapes(is_full), _svd_tangents
    )
    for is_full in (False, True)
}
QR = _Factors("qr", np.linalg.qr, _qr_shapes, _qr_tangents)


def _matrices(name: str, value: Any) -> Node:
    node = as_node(value)
    if node.rank < 2:
        raise ShapeError(f"{name} needs matrices, not the shape {node.shape}")
    known_sizes(name, node.shape)
    return node


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Orthogonal factors and singular values; derivatives of U and V need distinct values that are not 0."""
    if hermitian:
        raise untraceable("np.linalg.svd with hermitian=True", "Use np.linalg.eigh.")
    node = _matrices("svd", a)
    if not compute_uv:
        return svdvals(a)
    return SingularValues(*map(Expression, foreign(SVD[bool(full_matrices)], node)))


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Expression:
    """The singular values in descending order."""
    return Expression(foreign(SVD[False], _matrices("svdvals", x))[1])


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthonormal columns and a triangular matrix, of matrices with independent first columns."""
    array = Expression(_matrices("qr", a))
    rows, columns = known_sizes("qr", array.shape[-2:])
    if mode not in ("reduced", "r") and not (mode == "complete" and rows <= columns):
        raise untraceable(f"np.linalg.qr with mode={mode!r}", "Use mode='reduced' or 'r'.")
    q: Any
    r: Any
    q, r = map(Expression, foreign(QR, as_node(array[..., : min(rows, columns)])))
    if columns > rows:
        r = np.concatenate([r, q.mT @ array[..., rows:]], -1)
    return r if mode == "r" else OrthogonalTriangular(q, r)


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The largest singular value by the smallest one, or the same of a norm."""
    if p is None or p in (2, -2):
        values = svdvals(x)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    matrix = Expression(as_node(x))
    return np.linalg.norm(matrix, p, (-2, -1)) * np.linalg.norm(np.linalg.inv(matrix), p, (-2, -1))


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The shortest solution of least squares, the squared residuals, the rank and the singular values."""
    if rcond is not None:
        raise untraceable("np.linalg.lstsq with rcond", "Leave it out: NumPy's own is taken.")
    matrix, right = Expression(_matrices("lstsq", a)), Expression(as_node(b))
    rows, columns = known_sizes("lstsq", matrix.shape)
    solution = np.linalg.pinv(matrix) @ right
    values = svdvals(matrix)
    limit = max(rows, columns) * float(np.finfo(matrix.dtype).eps)
    rank = np.sum(values > values[0] * limit)
    gap = matrix @ solution - right
    residuals = np.atleast_1d(np.sum(gap * gap, axis=0)) if rows > columns else np.zeros(0)
    return solution, residuals, rank, values
