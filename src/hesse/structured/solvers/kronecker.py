"""Kronecker products: one term whose factors fall into components that share no label.

`-C[j,k] C[l,i] -> [i,j,k,l]`, the Hessian of a log-determinant, has the components `C[j,k]` and `C[l,i]`;
each of them is a small matrix, and the large system is solved component by component.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from hesse.ir import Node, Product, connected, einsum_of, labels_of, remembered
from hesse.structured.base import Patterns
from hesse.structured.patterns import count, products, same_positions
from hesse.structured.solvers.systems import Solver, divide, is_close, is_symmetric, singular, solve_matrices


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
    rank, node = tensor.groups[-1], tensor.node
    found = components(node, rank)
    if found is None:
        return None
    batch = count(_sizes(node, found.batch))
    sizes = tuple(count(_sizes(node, part.rows)) for part in found.parts)
    matrices = [
        value.reshape(batch, size, size)
        for value, size in zip(tensor.run_all(_matrices, rank), sizes, strict=True)
    ]
    if damping and not _has_eigenvectors(found, matrices):
        return None
    order = (*found.batch, *(p for part in found.parts for p in part.rows), rank)
    after = (*found.batch, *(p for part in found.parts for p in part.columns), rank)
    back = tuple(after.index(p) for p in range(rank + 1))

    def solve(right: np.ndarray) -> np.ndarray:
        typed = [matrix.astype(right.dtype, copy=False) for matrix in matrices]
        moved = right.transpose(order).reshape(batch, *sizes, -1)
        if damping:
            solution = _by_eigenvectors(found, typed, moved, damping)
            return solution.reshape([right.shape[p] for p in order]).transpose(np.argsort(order))
        for c, matrix in enumerate(typed):
            moved = _along(moved, c, functools.partial(solve_matrices, matrix))
        return (moved / found.scale).reshape([right.shape[p] for p in after]).transpose(back)

    return Solver("kronecker", solve)


def _along(array: np.ndarray, axis: int, operation: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The operation on `[batch, size, columns]` along one of the axes after the first."""
    moved = np.moveaxis(array, axis + 1, 1)
    result = operation(moved.reshape(*moved.shape[:2], -1)).reshape(moved.shape)
    return np.moveaxis(result, 1, axis + 1)


def _is_swapped(found: Components) -> bool:
    """Whether there are two components, each with the rows where the other has its columns."""
    parts = found.parts
    return len(parts) == 2 and parts[0].rows == parts[1].columns and parts[1].rows == parts[0].columns


def _has_eigenvectors(found: Components, matrices: list[np.ndarray]) -> bool:
    """Whether eigenvectors of the components make the whole matrix diagonal, or diagonal after a swap."""
    if not all(map(is_symmetric, matrices)):
        return False
    if all(part.rows == part.columns for part in found.parts):
        return True
    return _is_swapped(found) and is_close(matrices[0], matrices[1])


def _by_eigenvectors(
    found: Components, matrices: list[np.ndarray], right: np.ndarray, damping: float
) -> np.ndarray:
    """In the eigenvectors, `x / (a·b + damping)`; for a swap the same for the parts with `x' = ±x`."""
    if _is_swapped(found):
        values, vectors = ([part] * 2 for part in np.linalg.eigh(matrices[0]))
    else:
        values, vectors = map(list, zip(*map(np.linalg.eigh, matrices), strict=True))
    inside = right
    for c, vector in enumerate(vectors):
        inside = _along(inside, c, functools.partial(np.matmul, vector.swapaxes(1, 2)))
    eigenvalues = np.full(right.shape[:1], found.scale, right.dtype)
    for value in values:
        eigenvalues = eigenvalues[..., None] * value.reshape(len(value), *[1] * (eigenvalues.ndim - 1), -1)
    with np.errstate(all="ignore"):
        if _is_swapped(found):
            inside = _swapped_quotient(inside, damping, eigenvalues[..., None])
        else:
            inside = divide(inside, damping + eigenvalues)
    for c, vector in enumerate(vectors):
        inside = _along(inside, c, functools.partial(np.matmul, vector))
    condition = (
        (np.abs(eigenvalues).max() + abs(damping)) * np.abs(inside).max() / np.abs(right).max(initial=1e-300)
    )
    if not condition < 1.0 / (16.0 * np.finfo(inside.dtype).eps):
        raise singular(right[0, ..., 0].size)
    return inside


def _swapped_quotient(right: np.ndarray, damping: float, eigenvalues: np.ndarray) -> np.ndarray:
    """The solution of `damping·x + eigenvalues·x' = right`, where `x'` swaps the axes 1 and 2."""
    other = right.swapaxes(1, 2)
    difference = right - other
    unequal = np.divide(difference, damping - eigenvalues, where=difference != 0, out=np.zeros_like(right))
    return np.asarray(0.5 * ((right + other) / (damping + eigenvalues) + unequal))
