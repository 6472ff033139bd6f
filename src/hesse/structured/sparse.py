"""Sparse matrices: the entries that the terms touch and nothing else."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.backends.target import Array
from hesse.errors import ArgumentError
from hesse.ir import Axis, Node, Product, einsum_of, label_axis, number
from hesse.structured.base import Patterns
from hesse.structured.formulas import reordered
from hesse.structured.patterns import (
    count,
    matrix_axes,
    products,
)

if TYPE_CHECKING:
    from hesse.structured.tensor import Structured


def _cores(node: Node) -> list[Node]:
    """For each term the values it adds, over those of its output labels that its factors depend on."""
    return [_core(term) for term in products(node)]


def _core(term: Product) -> Node:
    kept = sorted(term.core_labels)
    return einsum_of(term._replace(output=tuple(map(label_axis, kept))).compact(), term.sizes(kept))


def _positions(axis: Axis, labels: list[int], ranges: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The values of an axis over a box of labels, as an array that broadcasts to the box."""
    strides = dict(axis.terms)
    values = np.full((1,) * len(labels), axis.offset, dtype)
    for k, label in enumerate(labels):
        if label in strides:
            line = np.arange(ranges[label], dtype=dtype) * strides[label]
            values = values + line.reshape([-1 if m == k else 1 for m in range(len(labels))])
    return values


def entries(tensor: Patterns) -> tuple[Array, np.ndarray, np.ndarray]:
    """Values, rows and columns of all entries that the terms add (some positions may occur repeatedly)."""
    rank, node, xp = tensor.groups[-1], tensor.node, tensor.target.algebra
    dtype = np.dtype(np.int32 if max(_matrix_shape(node, rank)) < 2**30 else np.int64)
    values: list[Array] = []
    positions: list[tuple[np.ndarray, np.ndarray]] = []
    for term, core in zip(products(node), tensor.run_all(_cores), strict=True):
        labels, ranges = sorted(term.placed), tuple(map(number, term.ranges))
        box, kept = tuple(ranges[label] for label in labels), term.core_labels
        value = core.reshape([ranges[label] if label in kept else 1 for label in labels])
        values.append(xp.broadcast_to(value, box).reshape(-1))
        row, column = (
            np.broadcast_to(_positions(axis, labels, ranges, dtype), box).ravel()
            for axis in matrix_axes(term, node.shape, rank)
        )
        positions.append((row, column))
    if not values:
        none = tensor.target.zeros((0,), tensor.dtype, list(tensor.parts.values()))
        return none, np.zeros(0, dtype), np.zeros(0, dtype)
    rows, columns = (np.concatenate(parts) for parts in zip(*positions, strict=True))
    return xp.concatenate(values), rows, columns


def _matrix_shape(node: Node, rank: int) -> tuple[int, int]:
    return count(node.shape[: node.rank - rank]), count(node.shape[node.rank - rank :])


def to_sparse(tensor: Patterns, layout: str | None) -> Any:
    """The matrix view as a sparse matrix of the library of the tensor."""
    xp = tensor.target.algebra
    if layout is not None and layout not in xp.sparse_layouts:
        listed = ", ".join(map(repr, sorted(xp.sparse_layouts)))
        raise ArgumentError(f"format must be one of {listed}, not {layout!r}")
    shape = _matrix_shape(tensor.node, tensor.groups[-1])
    return xp.sparse(*entries(tensor), shape, layout or xp.sparse_layouts[0])


def to_linear_operator(tensor: Structured) -> Any:
    """The matrix view as a SciPy linear operator."""
    if tensor.target.name != "numpy":
        raise ArgumentError(
            f"SciPy's linear operators take NumPy arrays, but the parts are of {tensor.target.name}; "
            "use H @ v and H.T @ v"
        )
    linalg = importlib.import_module("scipy.sparse.linalg")
    rank, node = tensor.groups[-1], tensor.node
    rows, columns = node.rank - rank, rank
    forward = tensor.like(node, (rows, columns))
    backward = tensor.like(reordered(node, (*range(rows, node.rank), *range(rows))), (columns, rows))

    def product(matrix: Structured, size: int) -> Any:
        shape = matrix.shape[matrix.ndim - matrix.groups[-1] :]

        def multiply(vectors: np.ndarray) -> np.ndarray:
            further = vectors.shape[1:]
            return np.asarray(matrix.matvec(vectors.reshape(shape + further))).reshape(size, *further)

        return multiply

    shape = _matrix_shape(node, rank)
    times, transposed = product(forward, shape[0]), product(backward, shape[1])
    return linalg.LinearOperator(
        shape, matvec=times, rmatvec=transposed, matmat=times, rmatmat=transposed, dtype=tensor.dtype
    )
