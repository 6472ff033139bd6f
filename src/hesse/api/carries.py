"""Loops whose carry has several leaves: all of them are parts of one vector."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hesse.api.loops import Part, Steps, loop
from hesse.calculus.rolling import rolled
from hesse.ir import Node, Variable, concatenate, reshape, select, zero
from hesse.rewrite import simplify

Sizes = tuple[int, ...]


def scanned(
    steps: Steps, carry: Variable, first: Sequence[Node], after: Sequence[Node], ys: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """The stacks of all leaves of the carry after each step, and of what else a step computes.

    `after` and `ys` are what a step computes from `carry`, the vector of all leaves.
    """
    shapes = [tuple(map(int, node.shape)) for node in first]
    nodes = simplify(rolled([_vector(after), *after, *ys]))
    new, after, ys = nodes[0], nodes[1 : len(after) + 1], nodes[len(after) + 1 :]
    if not first:
        return [], steps.batched(*ys)
    pieces = list(_pieces(shapes))
    parts = [Part(node, begin) for node, (begin, _) in zip(after, pieces, strict=True)]
    carries = loop(steps, carry, _vector(first), new, parts)
    leaves = [
        reshape(select(steps.after(carries), [slice(None), slice(*piece)]), (steps.length, *shape))
        for piece, shape in zip(pieces, shapes, strict=True)
    ]
    stacks = dict(zip(after, leaves, strict=True))
    stacks[carry] = steps.before(carries)
    return leaves, steps.further(stacks, {}).batched(*ys)


def leaves_of(vector: Node, shapes: Sequence[Sizes]) -> list[Node]:
    """The leaves of a carry."""
    return [
        reshape(select(vector, [slice(*piece)]), shape)
        for piece, shape in zip(_pieces(shapes), shapes, strict=True)
    ]


def _pieces(shapes: Sequence[Sizes]) -> Iterator[tuple[int, int]]:
    """Where each leaf lies in the vector of all."""
    begin = 0
    for shape in shapes:
        yield begin, begin + math.prod(shape)
        begin += math.prod(shape)


def _vector(nodes: Sequence[Node]) -> Node:
    flat = [reshape(node, (math.prod(map(int, node.shape)),)) for node in nodes]
    return concatenate(flat, 0) if flat else zero((0,))
