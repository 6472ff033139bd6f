"""Solving with a structured tensor: which method its patterns allow, and the methods by blocks.

`(H + damping·I) X = G` for the matrix of two equal groups of axes. The methods are tried in the order of
`METHODS`; each answers with a solver, or with None where the structure it needs is not there.
"""

from __future__ import annotations

import math

from hesse.backends.target import Array
from hesse.ir import Axis, Node, combine, constant_axis, einsum, label_axis, number, plain_axes, remembered
from hesse.structured.base import Patterns
from hesse.structured.formulas import diagonal
from hesse.structured.patterns import count, products, same_positions, shared_positions, touched
from hesse.structured.solvers.banded import banded
from hesse.structured.solvers.dense import damped, dense
from hesse.structured.solvers.kronecker import components, kronecker
from hesse.structured.solvers.low_rank import low_rank
from hesse.structured.solvers.sparse import sparse
from hesse.structured.solvers.systems import Solver, divide, solve_matrices

SMALL_BLOCK = 64
"""Blocks up to this size are always solved as dense ones."""

FULL_BLOCK = 8
"""Larger blocks are solved as dense ones at once if at least one entry in this many is touched."""


def solver(tensor: Patterns, damping: float) -> Solver:
    """The first method that fits."""
    for method in METHODS:
        found = method(tensor, damping)
        if found is not None:
            return found
    raise AssertionError("the last method always fits")


def solve(tensor: Patterns, right: Array, damping: float) -> Array:
    """The solution for right-hand sides `[variable axes…, further axis]`; an error if there is none.

    Where values cannot be looked at, it is nan instead.
    """
    xp, size = tensor.target.algebra, count(tensor.node.shape[: tensor.groups[-1]])
    method = solver(tensor, damping)
    solution = method.solve(right)
    if xp.raises or xp.is_hidden(solution) or xp.isfinite(solution).all():
        return solution
    raise method.failure(size)


def _shared(tensor: Patterns, damping: float) -> Solver | None:
    """Blocks that are all the same: one of them is solved, with everything else as further columns."""
    rank, shape = tensor.groups[-1], tensor.shape
    shared = shared_positions(tensor.node, rank)
    if not shared:
        return None
    kept = tuple(p for p in range(rank) if p not in shared)
    inner = solver(tensor.like(_one_block(tensor.node, rank, shared), (len(kept),) * 2), damping)
    order = (*kept, *shared, rank)
    back = tuple(order.index(p) for p in range(rank + 1))
    block, xp = tuple(shape[p] for p in kept), tensor.target.algebra

    def solve(right: Array) -> Array:
        moved = xp.permute_dims(right, order)
        return xp.permute_dims(inner.solve(moved.reshape(*block, -1)).reshape(moved.shape), back)

    name = _block_name(inner.name, math.prod(shape[p] for p in shared))
    return inner._replace(name=name, solve=solve)


def _block_name(inner: str, copies: int) -> str:
    if copies == 1 or inner in ("diagonal", "block-diagonal"):
        return inner
    return "block-diagonal" if inner == "dense" else f"block-diagonal, {inner}"


@remembered
def _one_block(node: Node, rank: int, shared: tuple[int, ...]) -> Node:
    """The tensor with the shared positions of rows and columns at zero."""
    kept = [p for p in range(2 * rank) if p % rank not in shared]
    axes = [constant_axis(0)] * (2 * rank)
    for label, p in enumerate(kept):
        axes[p] = label_axis(label)
    shape = tuple(node.shape[p] for p in kept)
    return einsum([node], [axes], plain_axes(len(kept)), shape, shape, expand=(0,))


def _digits(tensor: Patterns, damping: float) -> Solver | None:
    """An axis `r·i + j` taken apart into `i` and `j` where that shows blocks."""
    rank = tensor.groups[-1]
    found = _split(tensor.node, rank)
    if found is None:
        return None
    inner = solver(tensor.like(found, (rank + 1,) * 2), damping)
    shape = tuple(map(number, found.shape[: rank + 1]))

    def solve(right: Array) -> Array:
        return inner.solve(right.reshape(*shape, -1)).reshape(right.shape)

    return inner._replace(solve=solve)


@remembered
def _split(node: Node, rank: int) -> Node | None:
    """The tensor with one axis of its variable as two, if its blocks or components can be seen then."""
    parts = {operand for term in products(node) for operand in term.operands}
    known = same_positions(node, rank)
    for p in [p for p in range(rank) if p not in known]:
        axes = [term.output[k] for term in products(node) for k in (p, rank + p)]
        size = number(node.shape[p])
        for radix in sorted({abs(stride) for axis in axes for _, stride in axis.terms}, reverse=True):
            if radix == 1 or radix >= size or size % radix:
                continue
            new = _with_split_axis(node, rank, p, radix)
            whole_parts = {operand for term in products(new) for operand in term.operands} <= parts
            more = len(same_positions(new, rank + 1)) > len(known)
            if whole_parts and (more or components(new, rank + 1) is not None):
                return new
    return None


def _with_split_axis(node: Node, rank: int, position: int, radix: int) -> Node:
    axes: list[Axis] = []
    shape: list[int] = []
    for p, size in enumerate(map(number, node.shape)):
        label = label_axis(len(shape))
        if p % rank == position:
            axes.append(combine([(radix, label), (1, label_axis(len(shape) + 1))]))
            shape += [size // radix, radix]
        else:
            axes.append(label)
            shape.append(size)
    return einsum([node], [axes], plain_axes(len(shape)), shape, shape, expand=(0,))


def _diagonal(tensor: Patterns, damping: float) -> Solver | None:
    """A diagonal matrix: division."""
    rank = tensor.groups[-1]
    if len(same_positions(tensor.node, rank)) < rank:
        return None
    divided = tensor.target.algebra.compiled(divide)
    return Solver("diagonal", lambda right: divided(right, tensor.run(diagonal, rank) + damping))


def _full_blocks(tensor: Patterns, damping: float) -> Solver | None:
    """A block-diagonal matrix whose blocks are small or have few zeros."""
    rank = tensor.groups[-1]
    same = same_positions(tensor.node, rank)
    rows = count(tensor.node.shape[:rank])
    size = math.prod(n for p, n in enumerate(tensor.shape[:rank]) if p not in same)
    if size > SMALL_BLOCK and touched(tensor.node) * FULL_BLOCK < rows * size:
        return None
    return _blocks(tensor, damping)


def _blocks(tensor: Patterns, damping: float) -> Solver | None:
    """A block-diagonal matrix: one dense system for each block."""
    rank, shape = tensor.groups[-1], tensor.shape
    same = same_positions(tensor.node, rank)
    if not same:
        return None
    order = (*same, *(p for p in range(rank) if p not in same), rank)
    back = tuple(order.index(p) for p in range(rank + 1))
    size = math.prod(shape[p] for p in order[len(same) : -1])

    xp = tensor.target.algebra

    def solve(right: Array) -> Array:
        matrices = tensor.run(_block_formula, rank, same).reshape(-1, size, size)
        matrices = damped(tensor.target, matrices, damping, right.dtype)
        moved = xp.permute_dims(right, order)
        solution = solve_matrices(xp, matrices, moved.reshape(len(matrices), size, -1))
        return xp.permute_dims(solution.reshape(moved.shape), back)

    return Solver("block-diagonal", solve)


def _block_formula(node: Node, rank: int, same: tuple[int, ...]) -> Node:
    """`H[b…, r…, b…, c…] -> [b…, r…, c…]`."""
    axes = list(plain_axes(2 * rank))
    ranges = node.shape
    for p in same:
        axes[rank + p] = axes[p]
    order = [*same, *(p for p in range(2 * rank) if p % rank not in same)]
    used = {axes[p].label: k for k, p in enumerate(order)}
    axes = [axis.rename(used.__getitem__) for axis in axes]
    shape = tuple(ranges[p] for p in order)
    return einsum([node], [axes], plain_axes(len(order)), shape, shape, expand=(0,))


METHODS = (
    _shared,
    _diagonal,
    _digits,
    kronecker,
    _full_blocks,
    banded,
    low_rank,
    sparse,
    _blocks,
    dense,
)
