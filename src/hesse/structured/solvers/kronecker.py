"""Kronecker products: one term whose factors fall into components that share no label.

`-C[j,k] C[l,i] -> [i,j,k,l]`, the Hessian of a log-determinant, has the components `C[j,k]` and `C[l,i]`;
each of them is a small matrix, and the large system is solved component by component.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hesse.backends.target import Array
from hesse.ir import Node, Product, connected, einsum_of, labels_of, remembered
from hesse.structured.base import Patterns
from hesse.structured.patterns import count, products, same_positions
from hesse.structured.solvers.systems import Solver, accepted, divide, is_close, is_symmetric, solve_matrices


class Component(NamedTuple):
    """A matrix over some rows and columns: the node has axes `[batch…, rows…, columns…]`."""

    node: Node
    rows: tuple[int, ...]
    columns: tuple[int, ...]


class Components(NamedTuple):
    """`scale` times the Kronecker product of the parts, for each entry of the batch axes."""

    scale: float
    batch: tuple[int, ...]
    parts: tuple[Component, ...]


@remembered
def components(node: Node, rank: int) -> Components | None:
    """The components of a tensor, if there are several and each of them is square."""
    if len(products(node)) != 1:
        return None
    (term,) = products(node)
    batch = same_positions(node, rank)
    free = [p for p in range(2 * rank) if p % rank not in batch]
    carried = labels_of(term.output[p] for p in batch)
    if carried & labels_of(term.output[p] for p in free):
        return None
    tensors = [*term.axes, *((term.output[p],) for p in free)]
    groups = [labels for _, labels in connected(labels_of(axes) - carried for axes in tensors)]
    placed = labels_of(term.output[p] for p in free)
    matrices = sorted([labels for labels in groups if labels & placed], key=min)
    if len(matrices) < 2:
        return None
    parts = tuple(_component(node, term, rank, matrices, k) for k in range(len(matrices)))
    for part in parts:
        if count(_sizes(node, part.rows)) != count(_sizes(node, part.columns)):
            return None
    return Components(term.scale, batch, parts)


def _component(node: Node, term: Product, rank: int, matrices: list[set[int]], k: int) -> Component:
    """The k-th component; whatever belongs to none (scalars, constant axes) goes to the first."""

    def belongs(labels: set[int]) -> bool:
        owner = next((c for c, group in enumerate(matrices) if group & labels), 0)
        return owner == k

    batch = same_positions(node, rank)
    free = [p for p in range(2 * rank) if p % rank not in batch and belongs(labels_of([term.output[p]]))]
    chosen = [m for m, axes in enumerate(term.axes) if belongs(labels_of(axes))]
    order = (*batch, *free)
    part = term.only(chosen)._replace(output=tuple(term.output[p] for p in order), scale=1.0)
    matrix = einsum_of(part.compact(), _sizes(node, order))
    rows = tuple(p for p in free if p < rank)
    return Component(matrix, rows, tuple(p - rank for p in free if p >= rank))


def _sizes(node: Node, positions: Iterable[int]) -> tuple[int, ...]:
    return tuple(node.shape[p] for p in positions)  # type: ignore[misc]


def _matrices(node: Node, rank: int) -> list[Node]:
    found = components(node, rank)
    assert found is not None
    return [part.node for part in found.parts]


def kronecker(tensor: Patterns, damping: float) -> Solver | None:
    """A Kronecker product: component by component; with damping by eigenvectors of symmetric components."""
    rank, node, xp = tensor.groups[-1], tensor.node, tensor.target.algebra
    found = components(node, rank)
    if found is None:
        return None
    batch = count(_sizes(node, found.batch))
    sizes = tuple(count(_sizes(node, part.rows)) for part in found.parts)
    matrices = [
        value.reshape(batch, size, size)
        for value, size in zip(tensor.run_all(_matrices, rank), sizes, strict=True)
    ]
    if damping and not _has_eigenvectors(xp, found, matrices):
        return None
    order = (*found.batch, *(p for part in found.parts for p in part.rows), rank)
    after = (*found.batch, *(p for part in found.parts for p in part.columns), rank)
    method = xp.compiled(_by_eigenvectors if damping else _by_components, found.scale, _is_swapped(found))

    def solve(right: Array) -> Array:
        typed = tensor.target.converted(matrices, [right.dtype] * len(matrices))
        moved = xp.permute_dims(right, order).reshape(batch, *sizes, -1)
        solution, axes = method(moved, damping, *typed), order if damping else after
        back = tuple(axes.index(p) for p in range(rank + 1))
        return xp.permute_dims(solution.reshape([right.shape[p] for p in axes]), back)

    return Solver("kronecker", solve)


def _along(xp: Any, array: Array, axis: int, operation: Callable[[Array], Array]) -> Array:
    """The operation on `[batch, size, columns]` along one of the axes after the first."""
    moved = xp.moveaxis(array, axis + 1, 1)
    result = operation(moved.reshape(*moved.shape[:2], -1)).reshape(moved.shape)
    return xp.moveaxis(result, 1, axis + 1)


def _by_components(
    xp: Any, scale: float, is_swapped: bool, right: Array, damping: float, *matrices: Array
) -> Array:
    """One component after the other."""
    for c, matrix in enumerate(matrices):
        right = _along(xp, right, c, functools.partial(solve_matrices, xp, matrix))
    return right / scale


def _is_swapped(found: Components) -> bool:
    """Whether there are two components, each with the rows where the other has its columns."""
    parts = found.parts
    return len(parts) == 2 and parts[0].rows == parts[1].columns and parts[1].rows == parts[0].columns


def _has_eigenvectors(xp: Any, found: Components, matrices: list[Array]) -> bool:
    """Whether eigenvectors of the components make the whole matrix diagonal, or diagonal after a swap."""
    if not xp.is_fixed(*matrices) or not all(is_symmetric(xp, matrix) for matrix in matrices):
        return False
    if all(part.rows == part.columns for part in found.parts):
        return True
    return _is_swapped(found) and is_close(xp, matrices[0], matrices[1])


def _by_eigenvectors(
    xp: Any, scale: float, is_swapped: bool, right: Array, damping: float, *matrices: Array
) -> Array:
    """In the eigenvectors, `x / (a·b + damping)`; for a swap the same for the parts with `x' = ±x`."""
    if is_swapped:
        values, vectors = ([part] * 2 for part in xp.linalg.eigh(matrices[0]))
    else:
        values, vectors = map(list, zip(*map(xp.linalg.eigh, matrices), strict=True))
    inside = right
    for c, vector in enumerate(vectors):
        inside = _along(xp, inside, c, functools.partial(xp.matmul, xp.swapaxes(vector, 1, 2)))
    eigenvalues = scale * xp.ones_like(values[0][:, 0])
    for value in values:
        eigenvalues = eigenvalues[..., None] * value.reshape(len(value), *[1] * (eigenvalues.ndim - 1), -1)
    with xp.quiet():
        if is_swapped:
            inside = _swapped_quotient(xp, inside, damping, eigenvalues[..., None])
        else:
            inside = divide(xp, inside, damping + eigenvalues)
    for c, vector in enumerate(vectors):
        inside = _along(xp, inside, c, functools.partial(xp.matmul, vector))
    largest = xp.amax(xp.abs(eigenvalues)) + abs(damping)
    facts = xp.finfo(inside.dtype)
    condition = largest * xp.amax(xp.abs(inside)) / (xp.amax(xp.abs(right)) + float(facts.tiny))
    return accepted(xp, inside, condition < 1.0 / (16.0 * float(facts.eps)), math.prod(right.shape[1:-1]))


def _swapped_quotient(xp: Any, right: Array, damping: float, eigenvalues: Array) -> Array:
    """The solution of `damping·x + eigenvalues·x' = right`, where `x'` swaps the axes 1 and 2."""
    other = xp.swapaxes(right, 1, 2)
    difference = right - other
    differs = difference != 0  # else the divisor may be zero
    unequal = difference / xp.where(differs, damping - eigenvalues, 1.0)
    return 0.5 * ((right + other) / (damping + eigenvalues) + unequal)
