"""How the differentiations of a product or of a composition are shared out to its parts."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from hesse.cost import concrete, contraction_path, first_labels
from hesse.ir import Einsum, Node, Product, einsum_of, label_axis

Index = tuple[int, ...]
"""The order of a derivative in each parameter."""


def in_pairs(node: Einsum) -> Node:
    """The product with its factors multiplied two by two, in the cheapest order."""
    operands, axes = list(node.operands), list(node.axes)
    path = contraction_path(
        tuple(map(first_labels, axes)), node.core_labels, tuple(map(concrete, node.ranges))
    )
    for positions in path[:-1]:
        rest = [k for k in range(len(operands)) if k not in positions]
        chosen = [k for k in range(len(operands)) if k in positions]
        others = set(first_labels([*node.output, *itertools.chain(*[axes[k] for k in rest])]))
        inside = first_labels(itertools.chain(*[axes[k] for k in chosen]))
        kept = tuple([label_axis(label) for label in inside if label in others])
        pair = Product(
            tuple([operands[k] for k in chosen]), tuple([axes[k] for k in chosen]), kept, node.ranges, 1.0
        ).compact()
        made = einsum_of(pair, pair.sizes([axis.label for axis in pair.output]))
        operands = [*[operands[k] for k in rest], made]
        axes = [*[axes[k] for k in rest], kept]
    product = node.product._replace(operands=tuple(operands), axes=tuple(axes))
    return einsum_of(product.without(node.used - product.used), node.shape)


@functools.lru_cache(maxsize=4096)
def distributions(
    index: Index, alike: tuple[int, ...], lifted: tuple[int, int] | None
) -> tuple[tuple[tuple[Index, ...], int], ...]:
    """How the orders of an index are shared out to factors, and in how many ways.

    `alike[k]` is the first factor that is the same as factor k. The factor `lifted[0]` is linear in rates by
    the parameter `lifted[1]`: one order in it is its own.

    >>> distributions((3,), (0, 0), None)
    ((((0,), (3,)), 2), (((1,), (2,)), 6))
    >>> distributions((3,), (0, 1), (1, 0))
    ((((0,), (3,)), 1), (((1,), (2,)), 2), (((2,), (1,)), 1))
    """
    columns = []
    for parameter, order in enumerate(index):
        own = lifted[0] if lifted is not None and lifted[1] == parameter else None
        free = order if own is None else order - 1
        column = []
        for parts in _compositions(free, len(alike)):
            ways = math.factorial(free) // math.prod(map(math.factorial, parts))
            column.append((tuple([part + (k == own) for k, part in enumerate(parts)]), ways))
        columns.append(column)
    found: dict[tuple[Index, ...], int] = {}
    for choice in itertools.product(*columns):
        shares: list[Index] = list(zip(*[parts for parts, _ in choice], strict=True))
        for first in set(alike):
            places = [k for k, group in enumerate(alike) if group == first]
            for place, share in zip(places, sorted(shares[k] for k in places), strict=True):
                shares[place] = share
        key = tuple(shares)
        found[key] = found.get(key, 0) + math.prod([ways for _, ways in choice])
    return tuple(found.items())


@functools.lru_cache(maxsize=1024)
def partitions(index: Index) -> tuple[tuple[tuple[Index, ...], int], ...]:
    """The partitions of so many differentiations by each parameter, and how often each occurs.

    >>> partitions((2, 1))[1:4]
    ((((0, 1), (2, 0)), 1), (((1, 0), (1, 1)), 2), (((0, 1), (1, 0), (1, 0)), 1))
    """
    steps = [k for k, order in enumerate(index) for _ in range(order)]
    chosen: list[list[list[int]]] = [[]]
    for step in steps:
        chosen = [
            [
                *[block + [step] * (k == place) for k, block in enumerate(blocks)],
                *([[step]] * (place == len(blocks))),
            ]
            for blocks in chosen
            for place in range(len(blocks) + 1)
        ]
    found = Counter(
        tuple(sorted(tuple([block.count(k) for k in range(len(index))]) for block in blocks))
        for blocks in chosen
    )
    return tuple(found.items())


def linked(labels: Sequence[set[int]]) -> list[list[int]]:
    """Positions of sets in groups: two sets with a common entry are in the same one.

    >>> linked([{1}, {2}, set(), {1, 3}, {3}])
    [[1], [2], [0, 3, 4]]
    """
    groups: list[tuple[set[int], list[int]]] = []
    for k, own in enumerate(labels):
        near = [group for group in groups if group[0] & own]
        groups = [group for group in groups if group not in near]
        groups.append(
            (own.union(*[found for found, _ in near]), [*itertools.chain(*[m for _, m in near]), k])
        )
    return [members for _, members in groups]


def _compositions(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many."""
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, count - 1):
            yield first, *rest
